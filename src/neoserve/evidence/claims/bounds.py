"""What the hardware allows: throughput under its roofline, weights and cache in its memory."""

from __future__ import annotations

from fractions import Fraction

from ...schema.claims import Ceiling, ClaimedPoint, ClaimFacts, ClaimVerdict, Word
from ...units import parse_bytes, show_bytes, significant
from .figures import Interval, setting, share
from .money import rates

# As shares of the bound by bandwidth: where a request that decodes alone on a good engine is.
_ALONE = Interval(Fraction(4, 5), Fraction(51, 50))

# One request alone leaves the multipliers idle, a server under load does not: below this share of
# what they could do, both readings are open.
_IDLE_SHARE = 0.1


def check_bounds(point: ClaimedPoint, facts: ClaimFacts) -> list[ClaimVerdict]:
    """Roofline and memory, where model and hardware are known."""
    found = []
    if facts.ceiling is not None and "output" in (known := rates(point)):
        found.append(_roofline(point, facts.ceiling, known["output"]))
    return [*found, *_memory(point, facts)]


def _roofline(point: ClaimedPoint, ceiling: Ceiling, rate: Interval) -> ClaimVerdict:
    bounds = {"decoding alone": 1 / ceiling.output_token_s}
    if point.prompt_tokens is not None and point.output_tokens is not None:
        bounds["prompts and decoding"] = 1 / (
            ceiling.output_token_s + _prompts(point) * ceiling.prompt_token_s
        )
    steps_per_s = ceiling.most_bandwidth_bytes_per_s / ceiling.step_bytes
    drafts = 1 + point.num_speculative_tokens
    if point.concurrency is not None and not ceiling.fits_cache:
        at_once = float(setting(point.concurrency, f"{point.name}: concurrency").high)
        bounds[f"weights read once a step for {at_once:g} at once"] = at_once * drafts * steps_per_s
    alone = drafts * ceiling.bandwidth_bytes_per_s / ceiling.step_bytes
    parts = [
        f"{name}: {significant(bound, 4)} tokens/s, claimed: {_part(rate, bound)}"
        for name, bound in bounds.items()
    ]
    parts.append(
        f"one request alone: {significant(ceiling.bandwidth_bytes_per_s / 1e9)} GB/s ÷ "
        f"{significant(ceiling.step_bytes / 1e9, 4)} GB = {significant(alone, 4)} tokens/s, "
        f"claimed: {_part(rate, alone)}"
    )
    word, reason = _under(point, rate, bounds, alone)
    return ClaimVerdict(
        subject=point.name, what="roofline", claimed=f"{point.output_tokens_per_s} output tokens/s"
        if point.output_tokens_per_s is not None else f"{rate.show()} output tokens/s",
        verdict=word, arithmetic="; ".join(parts), reason=reason,
    )  # fmt: skip


def _under(
    point: ClaimedPoint, rate: Interval, bounds: dict[str, float], alone: float
) -> tuple[Word, str]:
    over = [name for name, bound in bounds.items() if float(rate.low) > bound]
    if over == ["prompts and decoding"] and point.prefix_hit_share is None:
        return "UNPROVEN", (
            "Too fast unless prompts came from a prefix cache: say prefix_hit_share."
        )
    if over:
        return "WRONG", f"Beyond what the hardware can do ({over[0]})."
    part = Interval(rate.low / Fraction(alone), rate.high / Fraction(alone))
    is_idle = rate.middle < _IDLE_SHARE * min(bounds.values())
    if point.concurrency is None and is_idle and part.meets(_ALONE):
        return "UNPROVEN", (
            "It is what one request alone decodes at, not a server under load: batching reads "
            "the same weights for many. Say concurrency if it is not."
        )
    return "HOLDS", "Within what the hardware can do."


def _part(rate: Interval, bound: float) -> str:
    """Of a bound: 94.7 % of it, or 4.2 times it."""
    times = rate.middle / bound
    return f"{times:.1%} of it" if times < 2 else f"{significant(times, 2)} times it"


def _prompts(point: ClaimedPoint) -> float:
    """Prompt tokens that are computed for each output token."""
    prompt = setting(point.prompt_tokens or 0, f"{point.name}: prompt_tokens").middle
    output = setting(point.output_tokens or 0, f"{point.name}: output_tokens").middle
    hits = 0.0
    if point.prefix_hit_share is not None:
        hits = share(point.prefix_hit_share, f"{point.name}: prefix_hit_share").middle
    return prompt / output * (1 - min(max(hits, 0.0), 1.0))


def _memory(point: ClaimedPoint, facts: ClaimFacts) -> list[ClaimVerdict]:
    """Weights alone, and with the cache that is claimed."""
    total = parse_bytes(point.memory) if point.memory else facts.memory_bytes
    weights = facts.ceiling.weights_bytes if facts.ceiling is not None else 0.0
    cache = parse_bytes(point.kv_cache) if point.kv_cache else 0
    if not total or not (cache or weights > total):
        return []
    word: Word = "HOLDS"
    reason = "They fit."
    if weights + cache > total:
        word, reason = "WRONG", "They do not fit."
    elif not weights:
        word, reason = "UNPROVEN", "The cache fits; the weights beside it are not known."
    known = f"{show_bytes(weights)} weights + " if weights else ""
    return [
        ClaimVerdict(
            subject=point.name, what="memory", verdict=word,
            claimed=f"KV cache of {point.kv_cache}" if cache else f"weights of {point.model}",
            arithmetic=f"{known}{show_bytes(cache)} KV cache against {show_bytes(total)} of memory",
            reason=reason,
        )
    ]  # fmt: skip
