import json
from pathlib import Path

import pytest

from kvchaos.cli.targets import Target, read_targets
from kvchaos.errors import ConfigError


def test_a_file_has_a_target_on_each_line_with_or_without_a_name(tmp_path: Path) -> None:
    file = tmp_path / "targets"
    file.write_text("# lab\nalpha unix:/run/a.sock\n\n10.0.0.2:9466 # the second\n")
    assert read_targets(str(file)) == [
        Target("alpha", "unix:/run/a.sock"),
        Target("10.0.0.2:9466", "10.0.0.2:9466"),
    ]


def test_a_list_has_commas_and_one_address_is_a_list() -> None:
    assert [target.address for target in read_targets("unix:/a, h:1,")] == ["unix:/a", "h:1"]
    assert [target.address for target in read_targets("unix:/a")] == ["unix:/a"]


def test_a_dns_name_stands_for_all_its_addresses_and_is_what_the_certificate_carries() -> None:
    targets = read_targets("dns:localhost:9466")
    assert Target("127.0.0.1:9466", "127.0.0.1:9466", server_name="localhost") in targets


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("one two three\n", "targets:1: write ADDRESS or NAME ADDRESS"),
        ("a h:1\nb nowhere\n", "targets:2: target 'nowhere' is neither"),
        ("a h:1\na h:2\n", "name 'a' is there twice"),
        ("a h:1\nb h:1\n", "address 'h:1' is there twice"),
        ("# nothing\n", "there is no target in it"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "targets"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_targets(str(file))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("/no/such/file", "cannot read /no/such/file: No such file"),
        ("h:1,h", "target 'h' is neither"),
        ("dns:no-such-host.invalid:1", "no-such-host.invalid cannot be resolved"),
        ("dns:host", "neither"),
        ("k8s:", "k8s:NAMESPACE/SELECTOR"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_targets(text)


def pod(name: str, address: str | None, phase: str = "Running", port: str = "control") -> dict[str, object]:
    containers = [{"name": "lmcache", "ports": [{"name": "cache", "containerPort": 5555}]}]
    sidecar = {"name": "sidecar", "ports": [{"name": port, "containerPort": 9466}]}
    status = {"phase": phase, **({"podIP": address} if address else {})}
    return {
        "metadata": {"name": name},
        "spec": {"containers": containers, "initContainers": [sidecar]},
        "status": status,
    }


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command of that name, which notes what it was asked and answers with ``answer``."""
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {tmp_path}/answer\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("k8s:app.kubernetes.io/name=kvchaos", "--selector app.kubernetes.io/name=kvchaos"),
        ("k8s:serving/app=kvchaos", "--namespace serving --selector app=kvchaos"),
        (
            "k8s:serving/app.kubernetes.io/name=kvchaos,tier=a",
            "--namespace serving --selector app.kubernetes.io/name=kvchaos,tier=a",
        ),
    ],
)
def test_pods_are_asked_of_kubectl(kubectl: Path, text: str, asked: str) -> None:
    pods = [pod("kv-0", "10.1.0.7"), pod("kv-1", "fd00::7")]
    (kubectl / "answer").write_text(json.dumps({"items": pods}))

    assert read_targets(text) == [Target("kv-0", "10.1.0.7:9466"), Target("kv-1", "[fd00::7]:9466")]
    assert (kubectl / "asked").read_text().strip() == f"get pods {asked} --output json"


def test_a_pod_that_cannot_be_reached_is_a_target_with_a_problem(kubectl: Path) -> None:
    pods = [pod("kv-0", None, "Pending"), pod("kv-1", "10.1.0.8", port="other")]
    (kubectl / "answer").write_text(json.dumps({"items": pods}))

    assert [target.problem for target in read_targets("k8s:app=kvchaos")] == [
        "the pod is Pending, without an address",
        "the pod has no port that is called 'control'",
    ]


def test_what_kubectl_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho no such cluster >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ConfigError, match="kubectl: no such cluster"):
        read_targets("k8s:app=kvchaos")
