"""Every kind of fault that a rule can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvchaos_sidecar.faults.alias_salt import AliasSalt
from kvchaos_sidecar.faults.bandwidth import Bandwidth
from kvchaos_sidecar.faults.byte_budget import ByteBudget
from kvchaos_sidecar.faults.claim_falsely import ClaimFalsely
from kvchaos_sidecar.faults.complete_late import CompleteLate
from kvchaos_sidecar.faults.complete_twice import CompleteTwice
from kvchaos_sidecar.faults.contract import Fault
from kvchaos_sidecar.faults.delay import Delay
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.faults.errno import Errno
from kvchaos_sidecar.faults.error import Error
from kvchaos_sidecar.faults.exchange_results import ExchangeResults
from kvchaos_sidecar.faults.flip_bits import FlipBits
from kvchaos_sidecar.faults.force_delete import ForceDelete
from kvchaos_sidecar.faults.hide import Hide
from kvchaos_sidecar.faults.incomplete import Incomplete
from kvchaos_sidecar.faults.keep_then_refuse import KeepThenRefuse
from kvchaos_sidecar.faults.lose import Lose
from kvchaos_sidecar.faults.lose_then_acknowledge import LoseThenAcknowledge
from kvchaos_sidecar.faults.misreport import Misreport
from kvchaos_sidecar.faults.never_complete import NeverComplete
from kvchaos_sidecar.faults.older_version import OlderVersion
from kvchaos_sidecar.faults.oversize import Oversize
from kvchaos_sidecar.faults.refuse import Refuse
from kvchaos_sidecar.faults.reset import Reset
from kvchaos_sidecar.faults.restart import Restart
from kvchaos_sidecar.faults.stale_positive import StalePositive
from kvchaos_sidecar.faults.swap import Swap
from kvchaos_sidecar.faults.torn import Torn
from kvchaos_sidecar.faults.truncate import Truncate
from kvchaos_sidecar.rules.call import Operation

KINDS: Sequence[type[Fault]] = (
    Drop, Error, Truncate, Oversize, FlipBits, Swap, OlderVersion, Delay, Bandwidth, NeverComplete,
    CompleteLate, CompleteTwice, ExchangeResults, Hide, ClaimFalsely, StalePositive, Errno,
    LoseThenAcknowledge, KeepThenRefuse, Torn, ByteBudget, Lose, ForceDelete, Misreport, Incomplete,
    Refuse, Reset, Restart, AliasSalt,
)  # fmt: skip

FAULTS: Mapping[str, type[Fault]] = {fault.kind: fault for fault in KINDS}


def faults_of(operation: Operation) -> Sequence[str]:
    """The kinds that can strike an operation."""
    return [kind for kind, fault in FAULTS.items() if operation in fault.operations]
