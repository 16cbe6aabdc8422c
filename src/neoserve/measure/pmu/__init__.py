"""Hardware counters of an engine at work, and what stands in for them where there are none."""

from .collect import collect
from .cores import core_type, named_core
from .perf import Scope
from .probe import this_host
from .steady import Steady
from .targets import tree, workers

__all__ = [
    "Scope",
    "Steady",
    "collect",
    "core_type",
    "named_core",
    "this_host",
    "tree",
    "workers",
]
