"""KV capacity exactly as vLLM's allocator computes it: groups, blocks, concurrency.

Follows vLLM 0.32: v1/core/kv_cache_utils.py (get_kv_cache_groups, get_kv_cache_configs,
get_kv_cache_capacity); older versions differ by what EngineProfile says.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..schema.engine import Deployment, EngineProfile
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from ..schema.prediction import Group, KvCapacity
from ..units import show_bytes
from .cache import Cache, layer_caches, unify_pages
from .weights import pipeline_stages


class CacheGroup(Struct, frozen=True):
    """Layers that share one block table. `caches` are (layer index, cache)."""

    caches: tuple[tuple[int, Cache], ...]
    distinct: tuple[Cache, ...]

    @classmethod
    def of(cls, caches: Sequence[tuple[int, Cache]]) -> CacheGroup:
        """A group of layers; equal caches are asked for their blocks once."""
        return cls(tuple(caches), tuple(dict.fromkeys(c for _, c in caches)))

    @property
    def block_tokens(self) -> int:
        """Tokens of a block; 0 for states."""
        return self.caches[0][1].block_tokens

    def bytes_on(self, layers: range | None) -> int:
        """Bytes that one block id costs on the rank that holds `layers`."""
        return sum(c.page_bytes for i, c in self.caches if layers is None or i in layers)

    def blocks(self, max_len: int, in_flight: int, dcp: int) -> int:
        """Blocks that one request of `max_len` tokens may hold."""
        return max(blocks_of(c, max_len, in_flight, dcp) for c in self.distinct)


def blocks_of(cache: Cache, max_len: int, in_flight: int, dcp: int = 1) -> int:
    """Blocks of one layer for one request; a window keeps what is still in flight too."""
    if cache.kind == "state":
        return cache.state_blocks
    block = cache.block_tokens
    if cache.full_like:
        return _ceil(_ceil(max_len, dcp), block)
    if cache.kind == "chunked":
        return _ceil(min(cache.window_tokens + in_flight, max_len), block)
    return _ceil(min(cache.window_tokens - 1 + in_flight, max_len), block) + 1


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def in_flight_tokens(deployment: Deployment, profile: EngineProfile, batched: int) -> int:
    """Tokens scheduled but not yet settled: their blocks cannot be recycled."""
    stages = deployment.pipeline_parallel
    asynchronous = deployment.async_scheduling is not False
    batches = profile.in_flight_batches if asynchronous else profile.in_flight_batches_sync
    return (batches + stages - 1) * batched


def cache_groups(
    model: ModelSpec, deployment: Deployment, profile: EngineProfile, hardware: HardwareSpec
) -> list[CacheGroup]:
    """Split the layers into groups as the engine does."""
    rows = layer_caches(model, deployment, profile, hardware)
    flat = [(i, cache) for i, row in enumerate(rows) for cache in row]
    if not flat:
        return []
    if deployment.disable_hybrid_kv_cache_manager:
        flat = _promote(flat)
    if _one_type([c for _, c in flat]):
        return [CacheGroup.of(flat)]
    if any(c.kind == "sliding-mla" for _, c in flat):
        return _packed_groups(flat)
    unified = unify_pages([c for _, c in flat])
    return _equal_groups(
        [(i, c) for (i, _), c in zip(flat, unified, strict=True)], profile.padding_ratio
    )


def _promote(flat: list[tuple[int, Cache]]) -> list[tuple[int, Cache]]:
    """Without the hybrid manager every token of a windowed layer keeps its slot."""
    if not any(c.full_like for _, c in flat):
        return flat
    return [
        (i, Cache("full", c.block_tokens, c.content_bytes, c.page_bytes, shape=c.shape))
        if c.kind in ("sliding", "chunked") else (i, c)
        for i, c in flat
    ]  # fmt: skip


def _one_type(caches: Sequence[Cache]) -> bool:
    """All layers need the same number of slots, so one group holds them, pages unequal or not."""
    first = caches[0]
    if any(c.block_tokens != first.block_tokens for c in caches):
        return False
    if all(c.full_like for c in caches):
        return True
    if first.kind == "state":
        return all(
            (c.kind, c.page_bytes, c.state_blocks)
            == ("state", first.page_bytes, first.state_blocks)
            for c in caches
        )
    return all((c.kind, c.window_tokens) == (first.kind, first.window_tokens) for c in caches)


def _equal_groups(flat: list[tuple[int, Cache]], padding_ratio: float) -> list[CacheGroup]:
    """Groups of equal layer count, the rarest type setting it unless the counts are close."""
    buckets: dict[Cache, list[tuple[int, Cache]]] = {}
    for i, cache in flat:
        buckets.setdefault(cache, []).append((i, cache))
    counts = [len(b) for b in buckets.values()]
    close = max(counts) < padding_ratio * min(counts)
    size = max(counts) if close else min(counts)
    groups = []
    for bucket in buckets.values():
        num_groups = _ceil(len(bucket), size)
        groups += [CacheGroup.of(bucket[i::num_groups]) for i in range(num_groups)]
    return groups


def _packed_groups(flat: list[tuple[int, Cache]]) -> list[CacheGroup]:
    """Block-outermost packing of pages of unequal size (kv_cache_utils.py:
    _get_packed_kv_cache_groups). Buckets whose page sizes repeat equally often stay whole;
    the largest of them sets how many layers the others are cut to."""
    buckets: list[list[tuple[int, Cache]]] = []
    for item in flat:
        for bucket in buckets:
            if _one_type([bucket[0][1], item[1]]):
                bucket.append(item)
                break
        else:
            buckets.append([item])
    repeats = [_page_counts(bucket) for bucket in buckets]
    balanced = [len(set(r.values())) == 1 for r in repeats]
    floor = max(
        (max(r.values()) for r, b in zip(repeats, balanced, strict=True) if b and len(r) > 1),
        default=0,
    )
    size = _least_padding(
        [max(r.values()) for r, b in zip(repeats, balanced, strict=True) if b], floor
    )
    groups = []
    for bucket, counts, even in zip(buckets, repeats, balanced, strict=True):
        num = _ceil(max(counts.values()), size) if even and size else 1
        groups += [CacheGroup.of(_slice(bucket, i, num)) for i in range(num)]
    return groups


def _slice(bucket: list[tuple[int, Cache]], start: int, step: int) -> list[tuple[int, Cache]]:
    """Every step-th layer of each page size: whole repeats of the layer pattern."""
    pages: dict[int, list[tuple[int, Cache]]] = {}
    for item in bucket:
        pages.setdefault(item[1].page_bytes, []).append(item)
    return [item for items in pages.values() for item in items[start::step]]


def _page_counts(bucket: list[tuple[int, Cache]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for _, cache in bucket:
        counts[cache.page_bytes] = counts.get(cache.page_bytes, 0) + 1
    return counts


def _least_padding(values: list[int], floor: int) -> int:
    """The size in [floor, max] that pads least; larger wins ties. 0 where nothing is packed."""
    if not floor:
        return 0
    top = max(values)
    return min(range(floor, top + 1), key=lambda d: (sum(-v % d for v in values), -d))


class Layout(Struct, frozen=True):
    """Groups and what one block id costs: all that capacity needs besides bytes."""

    groups: tuple[CacheGroup, ...]
    bytes_per_block: tuple[int, ...]  # of each pipeline stage
    block_tokens: int


def layout(
    model: ModelSpec, deployment: Deployment, profile: EngineProfile, hardware: HardwareSpec
) -> Layout:
    """Group the layers and price a block on every pipeline stage."""
    groups = cache_groups(model, deployment, profile, hardware)
    stages = deployment.pipeline_parallel
    ranges = pipeline_stages(len(model.layers), stages)
    last = ranges[-1]
    ranges[-1] = range(last.start, last.stop + len(model.draft_layers))
    per_stage = tuple(
        max((g.bytes_on(None if stages == 1 else r) for g in groups), default=0) for r in ranges
    )
    tokens = [g.block_tokens for g in groups if g.block_tokens]
    return Layout(tuple(groups), per_stage, min(tokens, default=0))


def num_blocks(plan: Layout, available_bytes: Sequence[int]) -> int:
    """Blocks of the stage with the fewest; a model without caches holds one."""
    return min(
        max(0, have) // cost if cost else 1
        for have, cost in zip(available_bytes, plan.bytes_per_block, strict=True)
    )


def blocks_per_request(plan: Layout, deployment: Deployment, max_len: int, in_flight: int) -> int:
    """Blocks that one request of `max_len` tokens may take from the shared pool."""
    dcp = deployment.decode_context_parallel
    return sum(g.blocks(max_len, in_flight, dcp) for g in plan.groups)


def longest_request(
    plan: Layout, deployment: Deployment, blocks: int, limit: int, in_flight: int
) -> int:
    """The longest request that fits alone into `blocks`, at most `limit` tokens."""
    low, high = 0, limit
    while low < high:
        mid = (low + high + 1) // 2
        if blocks_per_request(plan, deployment, mid, in_flight) <= blocks:
            low = mid
        else:
            high = mid - 1
    return low


class Capacity(Struct, frozen=True):
    """The answer, and the refusal if the engine would not start."""

    kv: KvCapacity
    refusal: str = ""


def capacity(
    plan: Layout,
    model: ModelSpec,
    deployment: Deployment,
    profile: EngineProfile,
    available_bytes: Sequence[int],
    max_model_len: int,
    max_num_batched_tokens: int,
) -> Capacity:
    """Blocks, tokens and concurrency from the bytes that each pipeline stage has left."""
    in_flight = in_flight_tokens(deployment, profile, max_num_batched_tokens)
    blocks = num_blocks(plan, available_bytes)
    need = blocks_per_request(plan, deployment, max_model_len, in_flight)
    concurrency = blocks / need if need else float(model.max_position_tokens)
    usable = blocks - int(profile.null_block)
    kv = KvCapacity(
        bytes_per_token=bytes_per_token(plan, deployment),
        state_bytes_per_request=state_bytes_per_request(plan),
        block_size_tokens=plan.block_tokens,
        num_blocks=blocks,
        kv_tokens=_logged_tokens(plan, profile, blocks, concurrency, max_model_len),
        max_concurrency=concurrency,
        bytes_per_block=max(plan.bytes_per_block),
        bytes_per_request=need * max(plan.bytes_per_block),
        max_model_len=max_model_len,
        longest_request_tokens=longest_request(
            plan, deployment, usable, model.max_position_tokens, in_flight
        ),
        groups=_shown_groups(plan, deployment, max_model_len, in_flight),
    )
    return Capacity(kv, _refusal(plan, need, usable, kv, min(available_bytes)))


def _refusal(plan: Layout, need: int, usable: int, kv: KvCapacity, available: int) -> str:
    if not plan.groups:
        return ""
    if available <= 0:
        return "no memory is left for the KV cache after weights and activations"
    if need <= usable:
        return ""
    needs = show_bytes(kv.bytes_per_request)
    return (
        f"one request of {kv.max_model_len:,} tokens needs {needs} of KV "
        f"cache and {show_bytes(available)} are available; it would start with "
        f"max_model_len {kv.longest_request_tokens:,}"
    )


def _logged_tokens(
    plan: Layout, profile: EngineProfile, blocks: int, concurrency: float, max_len: int
) -> int:
    """ "GPU KV cache size" as this version defines it."""
    if profile.log_definition == "concurrency-x-length" or not plan.block_tokens:
        return int(concurrency * max_len)
    return blocks // len(plan.groups) * plan.block_tokens


def bytes_per_token(plan: Layout, deployment: Deployment) -> float:
    """Bytes that one more token costs a long request: layers that keep every token, with the
    pool's share of padding."""
    pool = max(plan.bytes_per_block)
    dcp = deployment.decode_context_parallel
    return sum(
        pool / g.block_tokens / dcp for g in plan.groups if any(c.full_like for _, c in g.caches)
    )


def state_bytes_per_request(plan: Layout) -> int:
    """Bytes of recurrent state that one request holds, whatever its length."""
    pool = max(plan.bytes_per_block)
    return sum(
        g.caches[0][1].state_blocks * pool for g in plan.groups if g.caches[0][1].kind == "state"
    )


def _shown_groups(
    plan: Layout, deployment: Deployment, max_len: int, in_flight: int
) -> tuple[Group, ...]:
    dcp = deployment.decode_context_parallel
    return tuple(
        Group(
            kind=g.caches[0][1].kind,
            num_layers=len(g.caches),
            block_size_tokens=g.block_tokens,
            page_bytes=max(c.page_bytes for _, c in g.caches),
            padding_bytes=max(c.page_bytes - c.content_bytes for _, c in g.caches),
            blocks_per_request=g.blocks(max_len, in_flight, dcp),
        )
        for g in plan.groups
    )
