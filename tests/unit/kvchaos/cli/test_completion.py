import io
import shutil
import subprocess

import pytest

from kvchaos.cli.main import main


def script(shell: str) -> str:
    stdout = io.StringIO()
    assert main(["completion", shell], stdout, io.StringIO()) == 0
    return stdout.getvalue()


words_completed = pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["kvchaos", "ru"], ["rules"]),
        (["kvchaos", "cat"], ["catalogue"]),
        (["kvchaos", "rules", "en"], ["enable"]),
        (["kvchaos", "set", "--gap"], ["--gap-indices", "--gap-tail-ratios"]),
        (["kvchaos", "explain", "--op", "look"], ["lookup"]),
    ],
)


@words_completed
def test_a_shell_completes_words(words: list[str], completed: list[str]) -> None:
    typed = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _kvchaos; printf '%s\\n' ${{COMPREPLY[@]}}"
    program = f"{script('bash')}\n{ask}"
    found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == completed


def test_zsh_gets_bashs_completion() -> None:
    assert script("zsh").startswith("autoload -U +X bashcompinit")


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@words_completed
def test_fish_completes_words(words: list[str], completed: list[str]) -> None:
    program = f"{script('fish')}\ncomplete -C '{' '.join(words)}'"
    found = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == completed
    assert not found.stderr
