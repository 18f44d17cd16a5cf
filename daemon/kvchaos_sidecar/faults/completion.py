"""How a finished load reaches the cache server, where the plugin hands its result over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """The plugin carries this out. The default changes nothing."""

    late_s: float = 0.0
    """Seconds for which the finished result is kept back, whatever the plugin's own deadline is."""
    twice: bool = False
    """The result is signalled and handed out a second time."""
    exchanged: bool = False
    """The result is kept until another load with this mark is finished; then each gets the other's."""
