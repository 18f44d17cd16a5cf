"""Real processes for the tests and the demo: sidecar, cache server, stores."""
