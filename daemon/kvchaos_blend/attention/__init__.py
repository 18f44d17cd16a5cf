"""Attention over paged KV, by library kernels only."""
