"""Making an adapter, and what LMCache's storage manager does around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.storage_controllers.eviction_controller import (
    L2AdapterEvictionState,
    L2EvictionController,
)

from kvchaos_sidecar.backends.contract import BackendError
from kvchaos_sidecar.backends.lmcache.memory import AdapterMemory, RegisteredMemory, StagedMemory
from kvchaos_sidecar.backends.lmcache.spec import PLACE, HostedSpec

_ADAPTER_ID = 0


@dataclass(frozen=True, slots=True)
class Hosted:
    """An adapter that is ready."""

    adapter: Any
    """An L2AdapterInterface."""
    memory: AdapterMemory
    """What it reads and writes."""
    eviction: L2EvictionController | None
    """Not started; None when the spec asks for no eviction."""


def make_hosted(spec: HostedSpec, memory_bytes: int) -> Hosted:
    """Makes the adapter. Blocks for as long as that takes.

    Args:
        spec: a checked spec.
        memory_bytes: how much an adapter that registers memory gets.

    Raises:
        BackendError: the adapter cannot be made, or cannot evict as it is asked to.
    """
    try:
        memory = RegisteredMemory(memory_bytes) if spec.registers_memory else StagedMemory()
        adapter = create_l2_adapter(spec.config, memory.l1_memory_desc)
    except Exception as error:
        raise BackendError(f"{PLACE} ({spec.type_name}): LMCache cannot make the adapter: {error}") from error
    adapter.set_backend_identity(spec.type_name)
    return Hosted(adapter, memory, _make_eviction(spec, adapter))


def _make_eviction(spec: HostedSpec, adapter: Any) -> L2EvictionController | None:
    if spec.config.eviction_config is None:
        return None
    if not adapter.supports_global_eviction:
        adapter.close()
        raise BackendError(
            f"{PLACE}.eviction: {spec.type_name} has no capacity here, and LMCache evicts only by its share; "
            "give the adapter a capacity, or remove eviction"
        )
    return L2EvictionController([L2AdapterEvictionState(_ADAPTER_ID, adapter, spec.config.eviction_config)])
