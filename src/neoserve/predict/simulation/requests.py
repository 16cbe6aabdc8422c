"""What is sent to a simulated replica, drawn by the caller, and what became of each request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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
