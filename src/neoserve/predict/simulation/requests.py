"""What is sent to a simulated replica, drawn by the caller, and what became of each request."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...schema.workload import Workload


class Drawn(NamedTuple):
    """A schedule as it is drawn, one entry a request, in the order of their arrival."""

    due_s: Sequence[float]  # ascending; 0 in closed loops and for turns after the first
    prompt_tokens: Sequence[int]  # of its own message
    output_tokens: Sequence[int]
    follows: Sequence[int] = ()  # the request of the turn before; -1: none


# A schedule of so many requests; predictions know no chance, so a face draws it.
Draw = Callable[[Workload, int], Drawn]


class Requests(NamedTuple):
    """One entry a request, in the order in which they are sent."""

    due_s: Sequence[float]  # ascending; 0 where a request follows another
    prompt_tokens: Sequence[int]
    output_tokens: Sequence[int]  # at least 1
    cached_tokens: Sequence[int]  # of the prompt, below prompt_tokens
    concurrency: int = 0  # in flight in a closed loop; 0: sent when due
    follows: Sequence[int] = ()  # the request whose answer is waited for; -1: none
    think_time_s: float = 0.0  # after that answer
    shared_tokens: int = 0  # of every prompt: held in the cache once, whoever runs
    begun: Sequence[int] = ()  # tokens already given by the first requests, which decode at 0 s
    first: int = 0  # requests before this one, and from `last` on, are not measured
    last: int = 0  # 0: all


class Outcomes(NamedTuple):
    """What happened, by request; NaN where the run ended before."""

    sent_s: Sequence[float]
    first_s: Sequence[float]  # first token
    end_s: Sequence[float]  # last token
    num_steps: int
    prompt_s: float  # in steps that carry a prompt
    slots_full_s: float  # in which a request waits because all slots are taken
    kv_full_s: float  # in which one waits for room in the KV cache
    preemptions: int
    decode_request_s: float  # decoding requests x seconds
    elapsed_s: float
    unfinished: int  # measured requests that had not ended


def measured(requests: Requests) -> range:
    """Numbers of the requests that count."""
    return range(requests.first, requests.last or len(requests.prompt_tokens))


def requests_of(
    drawn: Drawn, hit_share: float, caching: bool, concurrency: int = 0, think_time_s: float = 0.0
) -> Requests:
    """The requests of a schedule. `hit_share` of a prompt is one prefix, which all share; what a
    conversation has said before is in the cache, too, with `caching`."""
    share = hit_share if caching else 0.0
    prompts, cached = drawn.prompt_tokens, [0] * len(drawn.due_s)
    if share or drawn.follows:
        before = _history(drawn)
        prompts = [own + said for own, said in zip(drawn.prompt_tokens, before, strict=True)]
        cached = [
            min(max(said if caching else 0, int(share * prompt)), prompt - 1)
            for prompt, said in zip(prompts, before, strict=True)
        ]
    shared = int(share * min(prompts)) if share else 0
    return Requests(
        drawn.due_s, prompts, drawn.output_tokens, cached, concurrency, drawn.follows,
        think_time_s, shared,
    )  # fmt: skip


def _history(drawn: Drawn) -> list[int]:
    """Tokens of a conversation before each request: its messages and answers so far."""
    said = [0] * len(drawn.due_s)
    for i, last in enumerate(drawn.follows):
        if last >= 0:
            said[i] = said[last] + drawn.prompt_tokens[last] + drawn.output_tokens[last]
    return said


def under_way(requests: Requests, num: int) -> Requests:
    """The same arrivals at a replica where `num` requests decode already.

    An inspector meets long answers more often, at an even age: all answers are laid end to end
    and cut at `num` equal distances.
    """
    outputs = [max(tokens - 1, 0) for tokens in requests.output_tokens]
    ends = list(itertools.accumulate(outputs))
    if num < 1 or not ends or not ends[-1]:
        return requests
    who, given, i = [], [], 0
    for k in range(num):
        place = (k + 0.5) / num * ends[-1]
        while ends[i] <= place:
            i += 1
        who.append(i)
        given.append(1 + math.floor(place - (ends[i] - outputs[i])))
    follows = (-1,) * num + tuple(f + num if f >= 0 else -1 for f in requests.follows)

    def put(values: Sequence[int]) -> list[int]:
        return [*(values[i] for i in who), *values]

    return requests._replace(
        due_s=[*(0.0,) * num, *requests.due_s],
        prompt_tokens=put(requests.prompt_tokens),
        output_tokens=put(requests.output_tokens),
        cached_tokens=put(requests.cached_tokens),
        follows=follows if requests.follows else (),
        begun=given,
        first=requests.first + num,
        last=requests.last + num if requests.last else 0,
    )
