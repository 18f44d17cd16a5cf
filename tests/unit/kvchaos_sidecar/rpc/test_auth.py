from pathlib import Path

import pytest

from kvchaos.errors import ConfigError
from kvchaos_sidecar.rpc.auth import read_token


def test_a_token_is_read_without_the_white_space_around_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("  secret\n")
    assert read_token(str(path)) == "secret"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff"])
def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"listen\.token_file"):
        read_token(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_token(str(tmp_path / "none"))
