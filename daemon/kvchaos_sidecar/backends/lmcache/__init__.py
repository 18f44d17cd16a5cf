"""Any adapter of an installed LMCache as a backend. Its modules import LMCache, which imports torch."""
