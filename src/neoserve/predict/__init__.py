"""COMPUTES: documents in, documents out. No clock, no I/O, no chance."""
