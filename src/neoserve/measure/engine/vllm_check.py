"""What vLLM's CPU backend would only refuse, or silently ignore, after a minute of imports."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import AskError
from ...units import GIB
from ..cores import host_cpus, parse_cpus, show_cpus
from ..host import memory_bytes

_BIND = "VLLM_CPU_OMP_THREADS_BIND"
_SPACE = "VLLM_CPU_KVCACHE_SPACE"
_RESERVED = "VLLM_CPU_NUM_OF_RESERVED_CPU"


def check_environment(env: Mapping[str, str], num_ranks: int) -> None:
    """Raises AskError for a value that vLLM does not have (vllm/envs.py, ompmultiprocessing.py)."""
    if _BIND in env:
        _check_bind(env[_BIND], num_ranks)
    for name in (_SPACE, _RESERVED):
        if name in env and not env[name].isdigit():
            unit = "GiB" if name == _SPACE else "CPUs"
            raise AskError(f"{name}={env[name]}: expected a whole number of {unit}")
    if _SPACE in env and int(env[_SPACE]) * GIB * num_ranks > memory_bytes() > 0:
        raise AskError(
            f"{_SPACE}={env[_SPACE]} GiB for each of {num_ranks} ranks is more than the "
            f"{memory_bytes() / GIB:.1f} GiB of this host"
        )
    if env.get(_BIND, "auto") != "auto" and _RESERVED in env:
        raise AskError(f"{_RESERVED} works only with {_BIND}=auto: leave one of them out")


def _check_bind(value: str, num_ranks: int) -> None:
    if value in ("auto", "nobind"):
        return
    lists = value.split("|")
    try:
        ranks = [parse_cpus(text) for text in lists]
    except AskError:
        ranks = [[]]
    if not all(ranks):
        raise AskError(
            f"{_BIND}={value} is no value of vLLM's; expected auto, nobind, or one list of CPUs "
            "for each rank, such as 0-3 or 0-3|4-7"
        )
    if len(lists) != num_ranks:
        raise AskError(f"{_BIND}={value} holds {len(lists)} lists for {num_ranks} ranks")
    missing = sorted({cpu for cpus in ranks for cpu in cpus} - set(host_cpus()))
    if missing:
        have = show_cpus(host_cpus())
        raise AskError(f"{_BIND}={value}: this host has no CPU {show_cpus(missing)}, only {have}")
