import logging

import pytest

from kvchaos.errors import SidecarUnavailable
from kvchaos.lmcache.connection_log import ConnectionLog
from kvchaos.reports import FaultsInForce


@pytest.mark.parametrize(
    ("faults", "ended"),
    [
        (FaultsInForce(rules=("a",)), False),
        (FaultsInForce(rules=("a",), halted=True), True),
        (FaultsInForce(rate=0.5), True),
    ],
)
def test_injection_by_rules_ends_with_a_halt_or_the_last_rule(faults: FaultsInForce, ended: bool) -> None:
    told: list[str] = []
    log = ConnectionLog("x", logging.getLogger("test"), lambda session: None, lambda: told.append("ended"))
    log.faults_changed(faults)
    assert bool(told) == ended


def test_injection_ends_with_the_sidecar() -> None:
    told: list[str] = []
    log = ConnectionLog("x", logging.getLogger("test"), lambda session: None, lambda: told.append("ended"))
    log.disconnected(SidecarUnavailable("gone"))
    assert told == ["ended"]
