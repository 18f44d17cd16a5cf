"""The Helm chart: linted and rendered by helm, checked against the schemas of Kubernetes and the sidecar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cloudcoil.models.prometheus_operator import v1 as operator

from kvchaos_blend.main import build_parser
from kvchaos_blend.plan import Policy
from kvchaos_sidecar.config.schema import Document
from tests.deploy.helm import CHART, HelmFailed, helm, of_kind, render

KUBERNETES_VERSIONS = ("1.29", "1.32", "1.37")
VARIANTS = {"default": (), **{path.stem: (path,) for path in sorted((CHART / "ci").glob("*.yaml"))}}

every_variant = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS.keys())


@every_variant
def test_lints(values: tuple[Path, ...]) -> None:
    arguments = [part for path in values for part in ("--values", str(path))]

    helm("lint", "--strict", "--quiet", str(CHART), *arguments)


@every_variant
def test_every_manifest_is_what_kubernetes_accepts(values: tuple[Path, ...]) -> None:
    for manifest in render(values):
        if manifest["apiVersion"].startswith("monitoring.coreos.com"):
            _check_operator_resource(manifest)
        else:
            for version in KUBERNETES_VERSIONS:
                kubernetes_validate.validate(manifest, version, strict=True)


def _check_operator_resource(manifest: dict[str, Any]) -> None:
    model = getattr(operator, manifest["kind"]).model_validate(manifest)
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True) == manifest


@every_variant
def test_no_container_runs_as_root_or_writes_its_image(values: tuple[Path, ...]) -> None:
    for container in _containers(render(values)):
        context = container["securityContext"]
        assert context["runAsUser"] > 0
        assert context["runAsNonRoot"] is True
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}


@every_variant
def test_the_sidecar_is_native_and_every_container_is_probed_and_bounded(values: tuple[Path, ...]) -> None:
    containers = _containers(render(values))

    assert [container["name"] for container in containers][:2] == ["sidecar", "lmcache"]
    assert containers[0]["restartPolicy"] == "Always"
    for container in containers:
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
        assert container["resources"]["limits"]["memory"]


@every_variant
def test_every_mount_has_its_volume(values: tuple[Path, ...]) -> None:
    manifests = render(values)
    volumes = {volume["name"] for volume in _pod(manifests)["volumes"]}

    mounted = {mount["name"] for container in _containers(manifests) for mount in container["volumeMounts"]}
    assert mounted == volumes


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "secret-values"])
def test_the_sidecar_accepts_the_configuration(name: str) -> None:
    (document,) = _documents(render(VARIANTS[name]))
    _, *clients = _containers(render(VARIANTS[name]))
    assert list(document.handoff.allow_uids) == [one["securityContext"]["runAsUser"] for one in clients]


def test_there_is_a_blend_worker_only_when_asked_for() -> None:
    _, lmcache, *others = _containers(render())
    assert (lmcache["name"], others) == ("lmcache", [])


def test_the_blend_worker_understands_its_arguments_and_is_scraped() -> None:
    manifests = render(VARIANTS["blend-values"])
    (worker,) = (one for one in _containers(manifests) if one["name"] == "blend")

    arguments = build_parser().parse_args(worker["args"])
    assert (arguments.model, arguments.model_name) == ("/models/llama", "meta-llama/Llama-3.1-8B")
    assert arguments.policy is Policy.SEGMENTED_PREFIX
    (mount,) = (
        mount
        for mount in worker["volumeMounts"]
        if arguments.target.startswith(f"unix:{mount['mountPath']}/")
    )
    assert mount == {"name": "cache-socket", "mountPath": "/run/kvchaos", "readOnly": True}
    (monitor,) = of_kind(manifests, "PodMonitor")
    scraped = {
        endpoint["port"]: endpoint["relabelings"][-1]["replacement"]
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
    }
    assert scraped == {"metrics": "kvchaos-sidecar", "blend-metrics": "kvchaos-blend"}
    (port,) = worker["ports"]
    assert port == {"name": "blend-metrics", "containerPort": int(arguments.http.rpartition(":")[2])}
    (policy,) = of_kind(manifests, "NetworkPolicy")
    assert {"port": "blend-metrics", "protocol": "TCP"} in policy["spec"]["ingress"][1]["ports"]


def test_the_blend_worker_and_the_cache_server_may_be_one_user() -> None:
    (document,) = _documents(render(settings=("blend.enabled=true",)))
    assert list(document.handoff.allow_uids) == [10002]


def test_the_model_in_the_image_is_the_one_that_compose_uses() -> None:
    compose = yaml.safe_load((CHART.parents[2] / "docker-compose.yml").read_text())["services"]["blend"][
        "command"
    ]
    (worker,) = (
        one for one in _containers(render(settings=("blend.enabled=true",))) if one["name"] == "blend"
    )
    (model,) = (word for word in compose if word.startswith("--model="))
    assert model.replace("${KVCHAOS_BLEND_MODEL:-", "").rstrip("}") in worker["args"]


def test_rules_are_in_the_configuration_and_a_change_of_them_restarts_no_pod() -> None:
    (document,) = _documents(render(VARIANTS["rules-values"]))
    assert [rule.name for rule in document.rules] == ["shaky", "slow"]
    assert document.safety.cap.share_of_keys == 0.5

    with_rules = render(VARIANTS["rules-values"])
    without = render(VARIANTS["rules-values"], ("config.rules=[]",))
    unsafe = render(VARIANTS["rules-values"], ("config.safety={}", "config.safety.cap=null"))
    assert _checksum(without) == _checksum(with_rules) != _checksum(unsafe)


def test_the_configuration_is_mounted_as_a_directory_so_that_it_is_updated() -> None:
    (sidecar, _) = _containers(render())
    (mount,) = (mount for mount in sidecar["volumeMounts"] if mount["name"] == "config")

    assert "subPath" not in mount
    assert sidecar["args"] == ["--config", f"{mount['mountPath']}/kvchaos.yaml"]


def test_changed_faults_restart_no_pod_and_a_changed_store_does() -> None:
    unchanged, other_faults, other_store = (
        _checksum(render(settings=settings))
        for settings in (
            (),
            ("config.fault_inject.rate=0.5",),
            ('config.backend={"type": "redis", "host": "other"}',),
        )
    )

    assert other_faults == unchanged
    assert other_store != unchanged


def test_with_its_own_secret_the_chart_makes_no_configuration() -> None:
    manifests = render(VARIANTS["secret-values"])

    assert not list(of_kind(manifests, "ConfigMap"))
    assert {"name": "config", "secret": {"secretName": "kvchaos-config"}} in _pod(manifests)["volumes"]


def test_the_cache_server_has_neither_the_store_nor_the_control_socket() -> None:
    (_, lmcache) = _containers(render(VARIANTS["fs-values"]))

    assert {mount["name"] for mount in lmcache["volumeMounts"]} == {"cache-socket", "lmcache-tmp", "shm"}


def test_the_rules_and_dashboards_are_those_of_the_repository() -> None:
    deploy = CHART.parents[1]
    manifests = render(VARIANTS["monitoring-values"])

    (rule,) = of_kind(manifests, "PrometheusRule")
    files = sorted((deploy / "prometheus/rules").glob("*.yml"))
    groups = [group for path in files for group in yaml.safe_load(path.read_text())["groups"]]
    assert rule["spec"]["groups"] == groups
    (dashboards,) = (one for one in of_kind(manifests, "ConfigMap") if "kvchaos.yaml" not in one["data"])
    for path in (deploy / "grafana/dashboards").glob("*.json"):
        assert dashboards["data"][path.name].strip() == path.read_text().strip()


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("sidecr={}", "sidecr"),
        ("config.fault_inject.rate=1.5", "config.fault_inject.rate"),
        ('config.backend.type="s3"', "config.backend.type"),
        ('config.backend.host="redis"', "config.backend"),
        ("control.expose=true", "control.tlsSecret"),
        ("sidecar.runAsUser=0", "sidecar.runAsUser"),
        ('kind="Pod"', "kind"),
    ],
)
def test_bad_values_are_refused_by_name(setting: str, complaint: str) -> None:
    with pytest.raises(HelmFailed, match=complaint):
        render(settings=(setting,))


def test_every_value_is_described() -> None:
    text = (CHART / "values.yaml").read_text()
    top_level = [line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha()]

    assert set(top_level) == yaml.safe_load((CHART / "values.schema.json").read_text())[
        "properties"
    ].keys() - {"global"}


def _pod(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    (workload,) = (one for one in manifests if one["kind"] in ("Deployment", "DaemonSet"))
    return dict(workload["spec"]["template"]["spec"])


def _containers(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pod = _pod(manifests)
    return [*pod["initContainers"], *pod["containers"]]


def _documents(manifests: list[dict[str, Any]]) -> list[Document]:
    """The sidecar's configuration, as the sidecar reads it."""
    return [
        Document.model_validate(yaml.safe_load(manifest["data"]["kvchaos.yaml"]))
        for manifest in of_kind(manifests, "ConfigMap")
        if "kvchaos.yaml" in manifest["data"]
    ]


def _checksum(manifests: list[dict[str, Any]]) -> str:
    (workload,) = of_kind(manifests, "Deployment")
    return str(workload["spec"]["template"]["metadata"]["annotations"]["checksum/static-config"])
