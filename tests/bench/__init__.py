"""Benchmarks: what the sidecar costs, measured side by side with what it stands beside.

``python -m tests.bench --help`` says how to run them; ``make bench`` runs them all.
"""
