"""Memory allocators that this host has, to be preloaded into an engine."""

from __future__ import annotations

from pathlib import Path

from .engine.linker import defines_malloc

# The minimal tcmalloc has no heap profiler; vLLM's images and documentation preload it.
_NAMES = {
    "tcmalloc": ("libtcmalloc_minimal.so*", "libtcmalloc.so*"),
    "mimalloc": ("libmimalloc.so*",),
    "jemalloc": ("libjemalloc.so*",),
}
# Where distributions keep them: Debian's folders by architecture, Red Hat's lib64, own builds.
_FOLDERS = ("usr/local/lib", "usr/lib/*-linux-gnu", "usr/lib64", "usr/lib", "opt/*/lib")
_ROOT = Path("/")


def installed(root: Path = _ROOT) -> dict[str, str]:
    """Name → library, of those that are found and define malloc."""
    found = {}
    for name, patterns in _NAMES.items():
        for path in _candidates(patterns, root):
            if defines_malloc(str(path)):
                found[name] = str(path)
                break
    return found


def _candidates(patterns: tuple[str, ...], root: Path) -> list[Path]:
    return [
        path
        for pattern in patterns
        for folder in _FOLDERS
        for path in sorted(root.glob(f"{folder}/{pattern}"))
    ]


def bundled_with_vllm(program: str) -> str:
    """The tcmalloc inside the vLLM that `program` (its ``vllm`` or its Python) belongs to; "".

    Where there is one, vLLM 0.20 and later put it before whatever is preloaded, unless that is a
    libtcmalloc too (platforms/cpu.py).
    """
    home = Path(program).parent.parent
    for packages in ("site-packages", "dist-packages"):
        for path in sorted(home.glob(f"lib*/python3*/{packages}/vllm/libs/libtcmalloc*.so*")):
            return str(path)
    return ""
