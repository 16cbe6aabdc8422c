"""vLLM on CPUs. Read from the sources of vLLM 0.11 to 0.32 and docs/getting_started/installation.

Versions are told apart where a setting's default or effect changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...measure.cores import show_cpus
from ...schema.space import Knob
from ...units import GIB
from ..host import HostFacts
from . import Asked, KnownGood, since, switch, weights, words

_ARGS = "vllm/engine/arg_utils.py"
_PLATFORM = "vllm/platforms/cpu.py"
_BINDING = "vllm/utils/ompmultiprocessing.py"
_DOCS = "docs.vllm.ai, CPU installation"
# Engine core, API server and client have to run somewhere: cores left free, at most so many.
_MOST_FREE = 4
_OWN_TCMALLOC = (0, 20)  # its wheels bring one, and put it first
_RESERVES = (0, 20)  # auto leaves a core of each rank free; before, none of a single rank's
_CHUNKS = (0, 12)  # chunked prefill and prefix caching are on, on Arm too (PR 29193)


def knobs(facts: HostFacts, asked: Asked) -> tuple[Knob, ...]:
    """All of them, for this host and version."""
    return (*_places(facts, asked), *_memory(facts), *batching(asked, 128, 2048),
            *_kernels(asked), *_choice(asked))  # fmt: skip


def notes(facts: HostFacts, asked: Asked) -> Iterator[str]:
    """What is not in the space, and why."""
    if _has_own(facts, asked):
        yield (
            "allocator: this vLLM brings its own tcmalloc and puts it before any other that is "
            "preloaded, so there is nothing to choose"
        )
    elif missing := [n for n in ("tcmalloc", "mimalloc", "jemalloc") if n not in facts.allocators]:
        yield f"allocator: {', '.join(missing)} not found on this host"
    if facts.host.numa_nodes < 2:
        yield "data-parallel: one NUMA node, so there is one rank"


def _has_own(facts: HostFacts, asked: Asked) -> bool:
    return bool(facts.bundled_allocator) and since(asked.version, *_OWN_TCMALLOC)


def _places(facts: HostFacts, asked: Asked) -> Iterator[Knob]:
    """Where it runs, and on which allocator."""
    if facts.allocators and not _has_own(facts, asked):
        yield Knob(
            "allocator", ("glibc", *facts.allocators), "glibc", env="LD_PRELOAD",
            value_of=facts.allocators,
            meaning="Library that malloc is taken from. What really is, the linker of each worker "
            "is asked; torch 2.10 and later keeps tensors in a mimalloc of its own on Arm.",
            source=f"{_DOCS}; {_PLATFORM}",
        )  # fmt: skip
    lists = bind_lists(facts, asked)
    yield Knob(
        "bind", ("auto", "nobind", *lists), "auto", env="VLLM_CPU_OMP_THREADS_BIND",
        value_of=lists,
        meaning="CPUs of the computing threads, one a physical core; all-but-N leaves the last N "
        "cores to the server, the client and the rest.",
        source=f"{_BINDING}; {_DOCS}",
    )  # fmt: skip
    if facts.num_cores > 1:
        most = min(_MOST_FREE, facts.num_cores - 1)
        yield Knob(
            "reserved-cpus", words(range(1, most + 1)),
            "1" if since(asked.version, *_RESERVES) else "0", env="VLLM_CPU_NUM_OF_RESERVED_CPU",
            meaning="CPUs that bind=auto leaves free; no other binding minds it.", source=_BINDING,
        )  # fmt: skip
    nodes = facts.host.numa_nodes
    if nodes > 1:
        yield Knob(
            "data-parallel", words(range(1, nodes + 1)), "1", flag="--data-parallel-size",
            meaning="Copies of the model, each bound to a NUMA node's cores and memory.",
            source=f"{_DOCS}; {_ARGS}",
        )  # fmt: skip


def bind_lists(facts: HostFacts, asked: Asked) -> dict[str, str]:
    """``all-but-1`` → ``0-14``: the first CPU of each physical core, the last cores left out."""
    most = min(_MOST_FREE, len(facts.cores) - 1)
    free = {k for k in (0, 1, 2, asked.client_workers + 1, _MOST_FREE) if k <= most}
    return {
        "all" if k == 0 else f"all-but-{k}":
        show_cpus(sorted(core[0] for core in facts.cores[: len(facts.cores) - k]))
        for k in sorted(free)
    }  # fmt: skip


def _memory(facts: HostFacts) -> Iterator[Knob]:
    most = int(facts.host.memory_bytes / facts.host.numa_nodes / GIB)
    sizes = [2**power for power in range(11) if 2**power < most]
    if sizes:
        yield Knob(
            "kv-space", words(sizes[-6:]), "what is free", env="VLLM_CPU_KVCACHE_SPACE",
            meaning="GiB of KV cache for each rank. By itself: a share of the memory, less what "
            "the process holds; a size of one's own guards against running out.",
            source="vllm/v1/worker/cpu_worker.py",
        )  # fmt: skip


def batching(asked: Asked, seqs: int, tokens: int) -> tuple[Knob, ...]:
    """As on every device; the defaults of an API server differ."""
    chunked = "on" if since(asked.version, *_CHUNKS) else "by version"
    return (
        Knob("batched-tokens", words({512, 1024, 2048, 4096, 8192, 16384}), str(tokens),
             flag="--max-num-batched-tokens",
             meaning="Tokens of one step: more compute prompts quicker, fewer keep decoding "
             "requests waiting for a shorter time.",
             source=f"{_ARGS}, get_batch_defaults"),
        Knob("max-seqs", words({8, 16, 32, 64, 128, 256, seqs}), str(seqs), flag="--max-num-seqs",
             meaning="Requests that run at once; others wait.",
             source=f"{_ARGS}, get_batch_defaults"),
        switch("chunked-prefill", "--enable-chunked-prefill", chunked,
               "Prompts are computed in pieces beside decoding requests.", _ARGS),
        switch("prefix-caching", "--enable-prefix-caching", chunked,
               "Prompts that begin alike are computed once.", _ARGS),
    )  # fmt: skip


def _kernels(asked: Asked) -> tuple[Knob, ...]:
    block = "128" if since(asked.version, 0, 12) else "16"
    return (
        switch("eager", "--enforce-eager", "off",
               "No compilation: starts minutes sooner, computes slower.", _PLATFORM),
        Knob("block-size", words({32, 64, 128, 256}), block, flag="--block-size",
             meaning="Tokens of a KV block; kernels want multiples of 32. Models with latent "
             "attention (MLA) have 16 whatever is asked.",
             source=_PLATFORM),
    )  # fmt: skip


def _choice(asked: Asked) -> Iterator[Knob]:
    meaning = (
        "A checkpoint of the same model: bf16, w8a8, w4a8-channel, w4a8-group, w4a16. Arm has "
        "kernels for all (W4A8: KleidiAI), x86 for W4A8 only with AMX."
    )
    if knob := weights(asked, meaning):
        yield knob


def known_good(facts: HostFacts) -> tuple[KnownGood, ...]:
    """What vLLM's makers advise for CPUs."""
    bind = {"bind": "all-but-2"} if len(facts.cores) > 2 else {}
    preload = {"allocator": "tcmalloc"} if "tcmalloc" in facts.allocators else {}
    tuning = f"{_DOCS}: raise max-num-batched-tokens for throughput"
    found = [
        KnownGood(preload | bind, "TCMalloc, and cores for the server's own work",
                  f"{_DOCS}: preload TCMalloc, reserve one or two cores"),
        KnownGood(preload | bind | {"batched-tokens": "4096"}, "prompts in fewer steps", tuning),
        KnownGood(bind | {"batched-tokens": "4096", "max-seqs": "64"},
                  "fewer at once, each quicker", f"{_DOCS}: lower max-num-seqs for latency"),
        KnownGood({"batched-tokens": "1024", "max-seqs": "32"},
                  "short steps: decoding requests wait less",
                  "vLLM docs, optimization: smaller max_num_batched_tokens, better ITL"),
    ]  # fmt: skip
    if facts.host.numa_nodes > 1:
        nodes = str(facts.host.numa_nodes)
        found.insert(1, KnownGood({"data-parallel": nodes}, "a copy for each NUMA node",
                                  f"{_DOCS}: data parallel across NUMA nodes"))  # fmt: skip
    return tuple(found)


