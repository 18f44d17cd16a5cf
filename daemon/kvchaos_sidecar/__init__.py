"""The sidecar: a proxy between a cache server and its L2 store that makes chosen operations fail."""
