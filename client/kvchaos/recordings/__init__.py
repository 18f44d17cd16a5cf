"""Recordings of what a daemon did: how they are read, and how the faults in them are injected again."""
