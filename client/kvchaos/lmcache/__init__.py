"""The LMCache plugin: an L2 adapter whose store is a kvchaos sidecar.

In the cache server's configuration::

    {"type": "plugin", "module_path": "kvchaos.lmcache", "class_name": "KVChaosL2Adapter",
     "adapter_params": {"target": "unix:/run/kvchaos/cache.sock"}}

LMCache finds :class:`KVChaosL2AdapterConfig` by its name.
"""

from kvchaos.lmcache.adapter import KVChaosL2Adapter
from kvchaos.lmcache.config import KVChaosL2AdapterConfig

__all__ = ["KVChaosL2Adapter", "KVChaosL2AdapterConfig"]
