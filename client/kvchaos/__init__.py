"""kvchaos: fault injection for the second tier of LLM KV caches. This package is the client library."""

__version__ = "0.1.0"
