"""One line in the cache server's log for each change of the connection, and never more."""

from __future__ import annotations

from collections.abc import Callable
from logging import Logger

from kvchaos.errors import KVChaosError
from kvchaos.keeper import SessionListener
from kvchaos.reports import FaultsInForce
from kvchaos.session import Session


class ConnectionLog(SessionListener):
    """Says when the sidecar comes and goes, and what it injects.

    Args:
        connected: called with every session that opens.
        injection_ended: called when the sidecar halts injection, has no rule in force, or is gone.
    """

    def __init__(
        self,
        target: str,
        logger: Logger,
        connected: Callable[[Session], None],
        injection_ended: Callable[[], None],
    ) -> None:
        self._target = target
        self._logger = logger
        self._connected = connected
        self._injection_ended = injection_ended

    def connected(self, session: Session) -> None:
        """The mark that this cache server runs with fault injection: a warning for every session."""
        self._connected(session)
        facts = session.facts
        self._logger.warning(
            "kvchaos ACTIVE: L2 goes through the fault-injecting sidecar at %s (backend %s, %s: %s; %s). "
            "For tests and diagnosis only.",
            self._target,
            facts.backend,
            facts.transport,
            facts.transport_reason,
            describe_faults(session.faults),
        )

    def disconnected(self, cause: KVChaosError) -> None:
        """Why the sidecar is gone. The next line comes when it is back."""
        self._injection_ended()
        self._logger.warning(
            "kvchaos: the sidecar at %s is not available: %s. Lookups miss, loads and stores fail; "
            "trying to connect until it is back.",
            self._target,
            cause,
        )

    def faults_changed(self, faults: FaultsInForce) -> None:
        """What is injected from now on."""
        if faults.halted or not faults.rules:
            self._injection_ended()
        self._logger.info("kvchaos: the faults in force changed: %s", describe_faults(faults))


def describe_faults(faults: FaultsInForce) -> str:
    """The faults in one line."""
    halted = "HALTED, " if faults.halted else ""
    rules = f", rules {list(faults.rules)}" if faults.rules else ""
    return (
        f"{halted}rate={faults.rate:g} seed={faults.seed} gap_indices={list(faults.gap_indices)} "
        f"gap_tail_ratios={list(faults.gap_tail_ratios)}{rules}, generation {faults.generation}"
    )
