"""The ``kvchaos`` command."""
