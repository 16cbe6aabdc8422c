"""When requests are due: drawn before the run from one seed, and tested against its own law.

A process whose rate changes is drawn on a clock that counts expected arrivals, where it is a
Poisson process of rate 1, and tested on that clock as well (time rescaling, Papangelou 1972).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import AskError
from ..schema.workload import Workload
from . import laws
from .laws import LawTests, gamma_cdf, ks_p_value

__all__ = ["arrival_times_s", "check_sent", "gamma_cdf", "ks_p_value", "law_tests",
           "num_requests_for"]  # fmt: skip

RANDOM_ARRIVALS = ("poisson", "gamma", "mmpp", "ramp")


class Piece(NamedTuple):
    """A stretch of time in which the rate is linear."""

    length_s: float
    rate_rps: float  # at its start
    slope_rps_per_s: float = 0.0

    def expected(self, elapsed_s: float) -> float:
        """Arrivals expected this long after its start."""
        if not self.slope_rps_per_s:  # may last for ever
            return elapsed_s * self.rate_rps
        return elapsed_s * (self.rate_rps + self.slope_rps_per_s * elapsed_s / 2)

    def elapsed_s(self, expected: float) -> float:
        """When that many are expected."""
        if not self.slope_rps_per_s:
            return expected / self.rate_rps if expected else 0.0
        square = self.rate_rps**2 + 2 * self.slope_rps_per_s * expected
        return 2 * expected / (self.rate_rps + math.sqrt(max(0.0, square))) if expected else 0.0


def arrival_times_s(workload: Workload, num_requests: int) -> tuple[float, ...]:
    """Exactly `num_requests` ascending due times of an open workload. Raises AskError.

    A schedule that fails a test of its law is refused, so one good seed in a thousand is too.
    """
    times_s = draw(workload, num_requests)
    if workload.arrival in RANDOM_ARRIVALS:
        check_law(workload, times_s)
    return times_s


def draw(workload: Workload, num_requests: int) -> tuple[float, ...]:
    """The due times as the seed gives them, not yet tested. Raises AskError."""
    _check(workload, num_requests)
    # with the rate in it, what is found at two rates is found twice
    rate = "" if workload.same_arrivals else f" at {workload.rate_rps!r}"
    rng = random.Random(f"arrivals {workload.seed}{rate}")
    if workload.arrival == "constant":
        return tuple(i / workload.rate_rps for i in range(1, num_requests + 1))
    if workload.arrival == "gamma":
        shape, scale_s = workload.burstiness, _gamma_scale_s(workload)
        return tuple(
            itertools.accumulate(rng.gammavariate(shape, scale_s) for _ in range(num_requests))
        )
    expected = itertools.accumulate(rng.expovariate(1.0) for _ in range(num_requests))
    return tuple(_times_s(_pieces(workload, num_requests), expected))


def num_requests_for(workload: Workload, duration_s: float) -> int:
    """How many requests a duration is expected to see, at least one."""
    return max(1, round(workload.rate_rps * duration_s))


def law_tests(
    workload: Workload, times_s: Sequence[float], num_planned: int | None = None
) -> LawTests:
    """Tests that ascending times from 0 on follow the law of a random arrival.

    `num_planned` is the schedule's length where `times_s` are only its beginning.
    """
    if workload.arrival == "gamma":
        shape, scale_s = workload.burstiness, _gamma_scale_s(workload)
        below = (gamma_cdf(gap_s, shape, scale_s) for gap_s in _gaps(times_s))
        gaps = [-math.log(max(1 - share, 1e-300)) for share in below]
    else:
        pieces = _pieces(workload, num_planned or len(times_s))
        gaps = list(_gaps(_expected(pieces, times_s)))
    return laws.law_tests(gaps, times_s)


def check_law(workload: Workload, times_s: Sequence[float]) -> None:
    """Refuse a schedule that is not what it was asked to be. Raises AskError."""
    failed = law_tests(workload, times_s).failed()
    if failed:
        raise AskError(
            f"the schedule is not {workload.arrival} at {workload.rate_rps:g} requests/s "
            f"({failed}); take another seed than {workload.seed}"
        )


def check_sent(workload: Workload, due_s: Sequence[float], sent_s: Sequence[float]) -> str:
    """Why the times at which requests really left do not follow the law; "" where they do.

    `due_s` are all planned arrivals (first turns), `sent_s` those that were sent, from the same
    zero. Constant arrivals and traces have no law but the due times themselves.
    """
    if workload.arrival not in RANDOM_ARRIVALS or not sent_s:
        return ""
    failed = law_tests(workload, sorted(sent_s), len(due_s)).failed()
    if not failed:
        return ""
    return (
        f"requests did not leave as {workload.arrival} arrivals at {workload.rate_rps:g} "
        f"requests/s ({failed})"
    )


def _check(workload: Workload, num_requests: int) -> None:
    if workload.arrival in ("closed", "trace"):
        raise AskError(f"a {workload.arrival} workload draws no arrivals")
    if not (workload.rate_rps > 0 and math.isfinite(workload.rate_rps)):
        raise AskError(f"rate is {workload.rate_rps:g} requests/s; give one above 0")
    if workload.arrival == "gamma" and not workload.burstiness > 0:
        raise AskError(f"burstiness is {workload.burstiness:g}; give one above 0, 1 is Poisson")
    if workload.arrival == "mmpp":
        _check_bursts(workload)
    if workload.arrival == "ramp" and not 0 <= workload.ramp_start_rps <= 2 * workload.rate_rps:
        raise AskError(
            f"a ramp from {workload.ramp_start_rps:g} requests/s cannot have a mean of "
            f"{workload.rate_rps:g}; start between 0 and twice the mean"
        )
    if num_requests < 1:
        raise AskError(f"{num_requests} requests cannot be sent; give at least 1")


def _check_bursts(workload: Workload) -> None:
    ratio, share, length_s = workload.burst_ratio, workload.burst_share, workload.burst_length_s
    if not (ratio >= 1 and 0 < share < 1 and 0 < length_s < math.inf):
        raise AskError(
            f"bursts of ratio {ratio:g}, share {share:g} and {length_s:g} s cannot be; "
            "give a ratio from 1 on, a share between 0 and 1 and a length above 0 s"
        )
    if ratio * share >= 1:
        raise AskError(
            f"bursts at {ratio:g} times the mean rate for {share:.0%} of the time leave nothing "
            f"for the rest; give a ratio below {1 / share:g} or a smaller share"
        )


def _pieces(workload: Workload, num_requests: int) -> Iterator[Piece]:
    """The rate from time 0 on, without end."""
    if workload.arrival == "mmpp":
        return _bursts(workload)
    rate_rps = workload.rate_rps
    if workload.arrival == "ramp":
        length_s, start_rps = num_requests / rate_rps, workload.ramp_start_rps
        end_rps = 2 * rate_rps - start_rps
        # a last arrival that chance puts behind the ramp meets its final rate, never 0
        after = Piece(math.inf, max(end_rps, rate_rps / num_requests))
        return iter([Piece(length_s, start_rps, (end_rps - start_rps) / length_s), after])
    return iter([Piece(math.inf, rate_rps)])


def _bursts(workload: Workload) -> Iterator[Piece]:
    """Exponential sojourns in calm and burst, started as if it had run for ever."""
    rng = random.Random(f"bursts {workload.seed}")  # not the gaps' numbers
    share, length_s = workload.burst_share, workload.burst_length_s
    burst_rps = workload.burst_ratio * workload.rate_rps
    calm_rps = (workload.rate_rps - share * burst_rps) / (1 - share)
    calm_length_s = length_s * (1 - share) / share
    burst = rng.random() < share
    while True:
        mean_s, rate_rps = (length_s, burst_rps) if burst else (calm_length_s, calm_rps)
        yield Piece(rng.expovariate(1 / mean_s), rate_rps)
        burst = not burst


def _times_s(pieces: Iterator[Piece], expected: Iterable[float]) -> Iterator[float]:
    """Times at which so many arrivals are expected; ascending."""
    piece, start_s, before = next(pieces), 0.0, 0.0
    whole = piece.expected(piece.length_s)
    for value in expected:
        while value - before > whole:
            before += whole
            start_s += piece.length_s
            piece = next(pieces)
            whole = piece.expected(piece.length_s)
        yield start_s + piece.elapsed_s(value - before)


def _expected(pieces: Iterator[Piece], times_s: Iterable[float]) -> Iterator[float]:
    """Arrivals expected until each time; ascending."""
    piece, start_s, before = next(pieces), 0.0, 0.0
    for time_s in times_s:
        while time_s - start_s > piece.length_s:
            before += piece.expected(piece.length_s)
            start_s += piece.length_s
            piece = next(pieces)
        yield before + piece.expected(time_s - start_s)


def _gaps(times: Iterable[float]) -> Iterator[float]:
    return (later - earlier for earlier, later in itertools.pairwise(itertools.chain([0.0], times)))


def _gamma_scale_s(workload: Workload) -> float:
    # mean gap = shape * scale = 1 / rate, as in vllm bench serve
    return 1 / (workload.rate_rps * workload.burstiness)
