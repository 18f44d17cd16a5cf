"""The settings of the LMCache plugin, from the help text that LMCache prints."""

from __future__ import annotations

import re

from docs.generate.markdown import code, sentence, table, text
from kvchaos.lmcache.config import KVChaosL2AdapterConfig

_SETTING = re.compile(r"^- (\w+) \(([^)]*)\): (.*)$")


def plugin_reference() -> str:
    """A table of ``adapter_params``."""
    lines = KVChaosL2AdapterConfig.help().replace("\n  ", " ").splitlines()
    found = [match for line in lines if (match := _SETTING.match(line))]
    rows = [
        (code(name), text(kind), sentence(meaning)) for name, kind, meaning in map(re.Match.groups, found)
    ]
    return table(("Field", "Type", "Meaning"), rows)
