"""The commands of ``kvchaos-blend``."""
