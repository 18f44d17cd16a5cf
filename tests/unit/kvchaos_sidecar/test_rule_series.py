from prometheus_client import CollectorRegistry, Counter

from kvchaos_sidecar.rule_series import MAX_GONE, RuleSeries


def test_the_series_of_rules_that_are_gone_are_forgotten_beyond_a_bound() -> None:
    registry = CollectorRegistry()
    fired = Counter("fired", "Fired.", ["rule", "reason"], registry=registry)
    series = RuleSeries(fired)
    for number in range(MAX_GONE + 5):
        fired.labels(f"rule-{number}", "match").inc()
        series.keep([f"rule-{number}"])
    series.keep([])

    def has(rule: str) -> bool:
        return registry.get_sample_value("fired_total", {"rule": rule, "reason": "match"}) is not None

    assert [has(f"rule-{number}") for number in (0, 4, 5, MAX_GONE + 4)] == [False, False, True, True]


def test_a_rule_that_comes_back_keeps_its_series() -> None:
    registry = CollectorRegistry()
    fired = Counter("fired", "Fired.", ["rule"], registry=registry)
    series = RuleSeries(fired)
    fired.labels("stays").inc()
    for number in range(MAX_GONE * 2):
        series.keep(["stays", f"rule-{number}"])
    series.keep([])
    assert registry.get_sample_value("fired_total", {"rule": "stays"}) == 1
