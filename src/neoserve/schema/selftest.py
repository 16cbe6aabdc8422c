"""SelfTest: how far a host's load client can be trusted."""

from __future__ import annotations

from .base import Document


class Spread(Document, frozen=True):
    """Of a sample, in seconds."""

    mean_s: float
    p95_s: float
    p99_s: float


# Version history: 1, first.
class SelfTest(Document, frozen=True, kw_only=True):
    """A load on a server of known latencies, and what the client made of it."""

    schema: str = "neoserve/selftest/1"
    basis: str = "measured"
    streams: int  # answers in flight at once
    true_ttft_s: float
    true_itl_s: float
    output_tokens: int  # of each answer
    loop: str
    workers: int
    cpus: int  # that client and server shared
    num_requests: int
    num_failed: int
    num_chunks: int
    num_lost: int  # chunks that the server wrote and the client did not count
    chunks_per_s: float
    ttft_error_s: Spread  # client's figure less the true one and the server's own lateness
    itl_error_s: Spread  # absolute, the server's own lateness included
    receive_delay_s: Spread | None  # from the server's write to the client's stamp
    server_late_s: Spread | None  # of the first token's write, after its deadline
    client_cpu_s_per_chunk: float
    limit_s: float  # of the mean error of TTFT
    is_trusted: bool
    reason: str
