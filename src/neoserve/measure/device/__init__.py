"""Micro-benchmarks of a device: reading, multiplying, launching, reducing."""
