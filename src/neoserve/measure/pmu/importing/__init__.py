"""Counters that other tools took: perf, Arm topdown-tool, AWS APerf, Arm Performix."""

from .read import read_file

__all__ = ["read_file"]
