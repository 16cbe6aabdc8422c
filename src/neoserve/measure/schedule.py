"""The one schedule of a load: every request with its time, lengths and phase, drawn beforehand."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import msgspec

from ..errors import AskError, EvidenceBroken
from ..schema.trial import Phase, PlannedRequest
from ..schema.workload import Workload
from .arrivals import arrival_times_s
from .dataset import Message, UserPrompt
from .lengths import Lengths, lengths
from .traces import Trace, scaled

Schedule = tuple[PlannedRequest, ...]


def plan(
    workload: Workload,
    num_measured: int,
    *,
    num_warmup: int = 0,
    num_drain: int = 0,
    trace: Trace | None = None,
    dataset: Sequence[UserPrompt] | None = None,
) -> Schedule:
    """All requests in the order of their arrival: warm-up, measured, drain. Raises AskError.

    The three numbers count arrivals. With `turns` above 1 an arrival is a conversation: its turns
    follow each other in the schedule, the first has `due_s`, and `prompt_tokens` of each are those
    of its own message, history not counted. With arrival "trace" the first rows of `trace` are
    replayed, at `rate_rps` on average if that is above 0; other arrivals draw their lengths from
    it. `prompt_tokens` is 0 for prompts of `dataset`: only a server can count them.
    """
    phases = _phases(num_warmup, num_measured, num_drain)
    if workload.arrival == "trace":
        return _replay(workload, phases, trace)
    if workload.turns < 1 or not 0 <= workload.think_time_s < math.inf:
        raise AskError(
            f"{workload.turns} turns with {workload.think_time_s:g} s between cannot be planned; "
            "give at least 1 turn and a time from 0 s on"
        )
    if not 0 <= workload.prefix_hit_share <= 1:
        raise AskError(f"shared share of prompts is {workload.prefix_hit_share:g}; give 0 to 1")
    due_s = _due_s(workload, len(phases))
    tokens = lengths(workload, () if trace is None else trace.lengths())
    messages = _messages(workload, dataset)
    return tuple(
        _request(due, next(tokens), phase, session, turn, message)
        for session, (due, phase) in enumerate(zip(due_s, phases, strict=True))
        for turn, message in enumerate(next(messages))
    )


def to_jsonl(schedule: Schedule) -> bytes:
    """One planned request a line."""
    return msgspec.json.Encoder().encode_lines(schedule)


def parse(data: bytes) -> Schedule:
    """What `to_jsonl` wrote. Raises EvidenceBroken."""
    try:
        return tuple(msgspec.json.Decoder(PlannedRequest).decode_lines(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceBroken(f"the schedule cannot be read: {error}") from None


def _phases(num_warmup: int, num_measured: int, num_drain: int) -> list[Phase]:
    if num_measured < 1 or num_warmup < 0 or num_drain < 0:
        raise AskError(
            f"{num_warmup} warm-up, {num_measured} measured and {num_drain} drain requests cannot "
            "be planned; give at least 1 measured"
        )
    phases: list[Phase] = ["warmup"] * num_warmup
    phases += ["measured"] * num_measured
    return phases + ["drain"] * num_drain


def _due_s(workload: Workload, num: int) -> tuple[float, ...]:
    if workload.arrival != "closed":
        return arrival_times_s(workload, num)
    if workload.concurrency < 1:
        raise AskError(f"concurrency is {workload.concurrency}; give at least 1")
    return (0.0,) * num


def _replay(workload: Workload, phases: Sequence[Phase], trace: Trace | None) -> Schedule:
    if trace is None:
        raise AskError("arrival is trace, but no trace is given; name a trace file")
    if workload.turns != 1:
        raise AskError(f"a trace brings its own requests; {workload.turns} turns cannot be added")
    trace = trace.first(len(phases))
    if workload.rate_rps:
        trace = scaled(trace, workload.rate_rps)
    rows = zip(trace.times_s, trace.lengths(), trace.prefixes, phases, strict=True)
    return tuple(
        PlannedRequest(due_s, *tokens, phase=phase, session=session, prefix=prefix)
        for session, (due_s, tokens, prefix, phase) in enumerate(rows)
    )


def _messages(
    workload: Workload, dataset: Sequence[UserPrompt] | None
) -> Iterator[tuple[Message, ...]]:
    """The messages of one arrival after another, without end."""
    if dataset is None:
        return itertools.repeat((Message("", 0),) * workload.turns)
    if not dataset:
        raise AskError("the dataset holds no prompts; give at least one")
    return (prompt.messages(workload.turns) for prompt in _shuffled(workload, dataset))


def _shuffled(workload: Workload, dataset: Sequence[UserPrompt]) -> Iterator[UserPrompt]:
    """Each prompt once before any comes again."""
    rng = random.Random(f"dataset {workload.seed}")
    while True:
        yield from rng.sample(dataset, len(dataset))


def _request(
    due_s: float, tokens: Lengths, phase: Phase, session: int, turn: int, message: Message
) -> PlannedRequest:
    prompt_tokens, output_tokens = tokens
    return PlannedRequest(
        due_s=due_s if turn == 0 else 0.0,
        prompt_tokens=0 if message.text else prompt_tokens,
        output_tokens=message.output_tokens or output_tokens,
        phase=phase,
        session=session,
        turn=turn,
        prompt=message.text,
    )
