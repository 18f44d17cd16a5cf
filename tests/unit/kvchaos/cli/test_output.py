import io

import pytest

from kvchaos.cli.output import Colour, Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    stream = io.StringIO()
    Output(stream, as_json=False).table(("rule", "keys"), [("fault_inject", 3), ("a", "")])
    assert stream.getvalue() == "rule          keys\nfault_inject  3\na             -\n"


def test_a_value_of_several_lines_stays_on_one() -> None:
    stream = io.StringIO()
    Output(stream, as_json=False).pairs([("error", "2 problems:\n  a\n  b"), ("rate", 0)])
    assert stream.getvalue() == "error  2 problems: a b\nrate   0\n"


def test_colours_are_for_terminals_only() -> None:
    assert Output(io.StringIO(), False).coloured("x", Colour.BAD) == "x"
    assert Output(Terminal(), False).coloured("x", Colour.BAD) == "\033[31mx\033[0m"


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert Output(Terminal(), False).coloured("x", Colour.BAD) == "x"
