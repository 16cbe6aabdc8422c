"""llama.cpp's server. Flags and defaults: tools/server/README.md, and xllamacpp 2026.10 as run."""

from __future__ import annotations

from collections.abc import Iterator

from ...measure.engine.llamacpp import DEFAULT_SLOTS
from ...schema.space import Knob
from ..host import HostFacts
from . import Asked, KnownGood, up_to, weights, words

_README = "llama.cpp tools/server/README.md"
_SEEN = "xllamacpp 2026.10, as run on 2026-11-30"
_SLOTS = (1, 2, 4, 8, 16, 32)
_CACHE_TYPES = ("q4_0", "q8_0", "f16")


def default_threads(facts: HostFacts) -> int:
    """llama.cpp's own choice (common.cpp, cpu_get_num_physical_cores): the machine's physical
    cores, whatever this process may use of them."""
    if facts.machine_cores:
        return facts.machine_cores
    cpus = facts.host.logical_cpus
    return cpus if cpus <= 4 else cpus // 2


def knobs(facts: HostFacts, asked: Asked) -> tuple[Knob, ...]:
    """All of them, for this host."""
    return (*_compute(facts), *_batching(), *_cache(), *_choice(asked))


def _compute(facts: HostFacts) -> tuple[Knob, ...]:
    threads, counts = str(default_threads(facts)), words(up_to(facts.num_cores))
    return (
        Knob("threads", counts, threads, flag="--threads",
             meaning="Threads that compute tokens; they spin while they wait, so one on a core "
             "that the client or another program needs slows all of them.",
             source=f"{_README}; common.cpp"),
        Knob("threads-batch", counts, "as threads", flag="--threads-batch",
             meaning="Threads that compute prompts.", source=_README),
        Knob("poll", ("0", "50", "100"), "50", flag="--poll",
             meaning="How long a waiting thread spins before it sleeps; 0: not at all.",
             source=_README),
        Knob("flash-attn", ("off", "on"), "on", flag="--flash-attn on",
             off_flag="--flash-attn off",
             meaning="One fused kernel for attention. By itself: on wherever the device has one, "
             "as CPUs do; on Arm it has been the slower one (llama.cpp issue 27086).",
             source=_README),
    )  # fmt: skip


def _batching() -> tuple[Knob, ...]:
    return (
        Knob("parallel", words(_SLOTS), f"{DEFAULT_SLOTS} slots with one cache",
             flag="--parallel",
             meaning="Requests that run at once. --ctx-size grows with it, so that each slot "
             "holds one request.",
             source=f"{_README}; {_SEEN}"),
        Knob("batch", ("512", "1024", "2048", "4096"), "2048", flag="--batch-size",
             meaning="Prompt tokens taken into one call.", source=_README),
        Knob("ubatch", ("64", "128", "256", "512", "1024", "2048"), "512", flag="--ubatch-size",
             meaning="Prompt tokens computed in one piece: fewer keep decoding requests waiting "
             "for a shorter time, more compute prompts quicker.",
             source=_README),
    )  # fmt: skip


def _cache() -> tuple[Knob, ...]:
    return (
        Knob("cache-type-k", _CACHE_TYPES, "f16", flag="--cache-type-k", changes_output=True,
             meaning="Number format of cached keys.", source=_README),
        Knob("cache-type-v", _CACHE_TYPES, "f16", flag="--cache-type-v", changes_output=True,
             meaning="Number format of cached values; a quantized one needs flash attention.",
             source=f"{_README}; {_SEEN}"),
        Knob("kv-unified", ("off", "on"), "on where parallel is left out, else off",
             flag="--kv-unified", off_flag="--no-kv-unified",
             meaning="One cache for all slots instead of a part for each.",
             source=f"{_README}; {_SEEN}"),
    )  # fmt: skip


def _choice(asked: Asked) -> Iterator[Knob]:
    if knob := weights(asked, "A GGUF file of the same model, quantized in another way."):
        yield knob


def known_good(facts: HostFacts) -> tuple[KnownGood, ...]:
    """For a client on the same host, which is what a search measures with."""
    spare = {"threads": str(facts.num_cores - 1)} if facts.num_cores > 1 else {}
    own = (
        "with a busy program on the second of two cores one thread decoded 58.7 tokens/s, two "
        "threads 4 to 6 (SmolLM2-135M, x86, 2026-11-30)"
    )
    slots = "llama.cpp tools/server/README.md on -np: slots are decoded in one batch"
    pieces = "prompt pieces hold up every decoding slot; llama.cpp common/arg.cpp on -ub"
    return (
        KnownGood({"parallel": "16"}, "as many in a batch as short requests allow", slots),
        KnownGood(spare, "a core for the client", own),
        KnownGood(spare | {"parallel": "8"}, "more requests in one batch", slots),
        KnownGood(spare | {"parallel": "8", "ubatch": "128"},
                  "prompts in pieces that decoding requests do not wait long for", pieces),
        KnownGood(spare | {"parallel": "16"}, "both", slots),
    )  # fmt: skip


def canonical(chosen: dict[str, str], threads: str) -> dict[str, str]:
    """Less what says only what llama.cpp does anyway, given the other settings.

    `threads` is its own choice of them.
    """
    kept = dict(chosen)
    if kept.get("threads-batch") == kept.get("threads", threads):
        del kept["threads-batch"]
    one_cache, slots = kept.get("kv-unified"), kept.get("parallel")
    if one_cache == ("on" if slots is None else "off") or slots == "1":
        kept.pop("kv-unified", None)
    if (slots, one_cache) == (str(DEFAULT_SLOTS), "on"):
        del kept["parallel"], kept["kv-unified"]
    return kept
