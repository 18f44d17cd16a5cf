from pathlib import Path

import pytest

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.load import compose, load, merge, parse_document
from kvchaos_sidecar.config.yaml_text import MAX_BYTES

BASE = "version: 1\nbackend: {type: fs, base_path: /data}\n"


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "config.yaml")
    assert caught.value.source == "config.yaml"
    return caught.value.problems


def test_a_document_keeps_lmcaches_defaults() -> None:
    faults = parse_document(BASE).fault_inject
    assert (faults.rate, faults.seed, faults.gap_indices, faults.gap_tail_ratios) == (0.0, 0, (), ())


def test_every_problem_is_listed_with_its_place_value_and_fix() -> None:
    found = problems(
        "version: 2\n"
        "backend: {type: redis, prot: 6379, password: 1234}\n"
        "fault_inject: {rate: 1.5, sede: 3, gap_indices: [true, -1], gap_tail_ratios: 0.5}\n"
        "limits: {lock_ttl: 5}\n"
    )
    assert set(found) == {
        "version: 2 is not 1",
        "backend.password: the value is not text; put it in quotes",
        "backend.prot: unknown key; did you mean port?",
        "fault_inject.rate: 1.5 is not in [0, 1]",
        "fault_inject.gap_indices[0]: true is not an integer",
        "fault_inject.gap_indices[1]: -1 is not in [0, 9223372036854775807]",
        "fault_inject.gap_tail_ratios: 0.5 is not a list; write [0.5]",
        "fault_inject.sede: unknown key; did you mean seed?",
        "limits.lock_ttl: 5 has no unit; write for example '5s'",
    }


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ('rate: "0.1"', 'fault_inject.rate: "0.1" is not a number'),
        ("rate: true", "fault_inject.rate: true is not a number"),
        ("rate: .nan", "fault_inject.rate: nan is not in [0, 1]"),
        ("rate: .inf", "fault_inject.rate: inf is not in [0, 1]"),
        ("rate: -0.1", "fault_inject.rate: -0.1 is not in [0, 1]"),
        ("seed: true", "fault_inject.seed: true is not an integer"),
        ("seed: 1.0", "fault_inject.seed: 1.0 is not an integer"),
        (
            "seed: 9223372036854775808",
            "fault_inject.seed: 9223372036854775808 is not in [-9223372036854775808, 9223372036854775807]",
        ),
        ("gap_tail_ratios: [-0.1]", "fault_inject.gap_tail_ratios[0]: -0.1 is not in [0, 1]"),
        ("gap_tail_ratios: [true]", "fault_inject.gap_tail_ratios[0]: true is not a number"),
        (
            "poison: {byte: 256}",
            'fault_inject.poison: {"byte": 256} is not a poison; '
            "write nan, leave or {byte: 0} with a byte from 0 to 255",
        ),
    ],
)
def test_a_bad_fault_is_refused(faults: str, problem: str) -> None:
    assert problems(f"{BASE}fault_inject: {{{faults}}}") == (problem,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: 1", "backend: missing, it is required"),
        ("version: 1\nbackend: {}", "backend.type: missing, it is required"),
        ("version: 1\nbackend: {type: fs}", "backend.base_path: missing, it is required"),
        (
            "version: 1\nbackend: {type: memry}",
            'backend.type: "memry" is not one of fs, memory, redis, lmcache; did you mean memory?',
        ),
        (
            "version: 1\nbackend: {type: lmcache, inner: {base_path: /x}}",
            "backend.inner: needs a string 'type', the name of an LMCache adapter, for example fs_native",
        ),
        (BASE + "fault_injct: {}", "fault_injct: unknown key; did you mean fault_inject?"),
        (BASE + "fault_inject:", "fault_inject: null is not a mapping of names to values; "
         "its keys are rate, seed, gap_indices, gap_tail_ratios, poison"),
        (BASE + "limits: {lock_ttl: 5 minutes}", "limits.lock_ttl: '5 minutes' is not a duration; "
         "write for example 300ms, 5m or 1h30m"),
        (BASE + "listen: {cache: '127.0.0.1'}", "listen.cache: '127.0.0.1' is not an address; "
         "write unix:/absolute/path or HOST:PORT"),
        (BASE + "listen: {http: 'unix:/x.sock'}", "listen.http: 'unix:/x.sock' is a Unix socket; "
         "write HOST:PORT, for example 127.0.0.1:9464"),
    ],
)  # fmt: skip
def test_a_bad_document_is_refused(text: str, problem: str) -> None:
    assert problems(text) == (problem,)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_told_what_it_needs(text: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("empty; the least that it needs is:")
    parse_document(problem.partition("\n")[2])


def test_a_list_is_not_a_document() -> None:
    (problem,) = problems("[1]")
    assert problem.startswith("the top level is [1]; it must be a mapping")


@pytest.mark.parametrize("name", ["cache", "control"])
def test_an_address_that_other_hosts_reach_needs_tls_and_a_token(name: str) -> None:
    (problem,) = problems(f"{BASE}listen: {{{name}: '0.0.0.0:9000', token_file: /token}}")
    assert problem == (
        f"listen: {name} (0.0.0.0:9000) can be reached from other hosts: set tls, "
        "or listen on 127.0.0.1 or a Unix socket"
    )
    tls = "tls: {certificate: /c.pem, key: /k.pem}, token_file: /token"
    parse_document(f"{BASE}listen: {{{name}: '0.0.0.0:9000', {tls}}}")


def test_arguments_win_over_the_file_and_a_backend_is_taken_whole(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(BASE + "fault_inject: {rate: 0.5, seed: 3}\n")
    arguments = {"backend": {"type": "memory", "capacity_bytes": 5}, "fault_inject": {"rate": 0.1}}
    document = load(path, arguments).document
    assert document.backend.type == "memory"
    assert (document.fault_inject.rate, document.fault_inject.seed) == (0.1, 3)


def test_merging_leaves_its_inputs_alone() -> None:
    under, over = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(under, over) == {"a": {"b": 1, "c": 2}}
    assert (under, over) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(10 * 2**30)
    with pytest.raises(ConfigError, match=f"larger than the limit of {MAX_BYTES} bytes"):
        load(path)


def test_the_configuration_remembers_its_layers(tmp_path: Path) -> None:
    configuration = compose(tmp_path / "c.yaml", BASE.encode(), {"fault_inject": {"seed": 1}})
    assert configuration.content == BASE.encode()
    assert configuration.file["version"] == 1
    assert configuration.arguments == {"fault_inject": {"seed": 1}}
