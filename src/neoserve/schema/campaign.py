"""SearchPlan, Job, Seen, Recommendation: a search over configurations and what it found."""

from __future__ import annotations

from typing import Literal

from .base import Document
from .engine import EngineConfig
from .quality import QualityCheck
from .space import Candidate, Rejected, Space
from .trial import Trial, Verdict
from .workload import Slo, Workload

Purpose = Literal[
    "scout",    # roughly, where is the first one's limit?
    "probe",    # is it worth a look? at the leader's rate
    "climb",    # where is its limit?
    "settle",   # finalists' limits again, on other requests
    "certify",  # the proof, on requests that nothing was chosen by
    "refute",   # a rate just above is disproven: the other end of the bracket
    "quality",  # no load: does it change answers?
]  # fmt: skip


class Job(Document, frozen=True):
    """One thing to do with one candidate."""

    candidate: int  # its place in the plan
    purpose: Purpose
    rate_rps: float = 0.0
    num_requests: int = 0
    seed: int = 0  # candidates that are compared get the same requests at the same rate
    level: float = 0.05
    visit: int = 0  # a new number asks for a freshly started server


class Seen(Document, frozen=True):
    """What a job showed. A start that failed has `crash`, a load that could not be judged VOID."""

    verdict: Verdict = "INCONCLUSIVE"
    saturated: bool = False
    num: int = 0  # requests judged
    num_misses: int = 0  # of the target nearest its limit
    share: float = 0.0  # of requests that may miss
    dependence: float = 1.0
    goodput_rps: float | None = None
    spent_s: float = 0.0  # engine time: start, load, and waiting between
    crash: str = ""  # the engine's own reason
    quality: QualityCheck | None = None


class Told(Document, frozen=True):
    """A job that is over."""

    job: Job
    seen: Seen


# Version history: 1, first.
class SearchPlan(Document, frozen=True, kw_only=True):
    """Everything that decides what is done next, but for what is seen."""

    schema: str = "neoserve/search-plan/1"
    candidates: tuple[Candidate, ...]  # the first is the baseline; in the order to try them
    cost_shares: tuple[float, ...] = ()  # of the host's price that each takes; (): all of it
    guarded: tuple[int, ...] = ()  # candidates whose answers may differ from the baseline's
    start_rps: float
    rungs: tuple[int, ...] = (40, 150, 400)  # requests; the first can only reject
    num_certify: int = 800  # requests of the winner and of the baseline, over all seeds
    num_seeds: int = 3
    num_finalists: int = 3  # that are settled; 0: none
    tolerance: float = 0.03  # of a capacity
    level: float = 0.05
    seed: int = 0
    budget_s: float | None = None  # engine time
    budget_trials: int | None = None
    budget_usd: float | None = None
    usd_per_hour: float | None = None
    start_s: float = 10.0  # expected, of a server
    horizon_s: float = 0.0  # longest limit of the SLO: a queue takes a multiple of it to show


# Version history: 1, first.
class Campaign(Document, frozen=True, kw_only=True):
    """What `neoserve tune` was asked: with the plan, all that a resumed search needs."""

    schema: str = "neoserve/campaign/1"
    space: Space
    workload: Workload  # its rate is the search's
    slo: Slo
    context_tokens: int  # of one request, at most
    quality_budget_share: float = 0.04
    quality_text: str = ""  # the user's own file; "": the text that comes along
    quality_words: int | None = None  # of each document, from its start; null: as they are
    quality_task: str = ""
    route: Literal["completions", "chat"] = "completions"
    workers: int = 1
    timeout_s: float = 600.0
    usd_per_hour: float | None = None
    price_source: str = ""
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()
    counts: bool = True  # counters over each steady window


class Capacity(Document, frozen=True):
    """Highest rate within the SLO, as far as it is known; null: not bounded from that side."""

    low_rps: float | None
    high_rps: float | None
    certified_rps: float | None = None  # proven on fresh requests
    refuted_rps: float | None = None  # the lowest rate that was disproven on fresh requests


EndedBy = Literal["done", "time", "trials", "money", "interrupted"]

State = Literal[
    "pick", "tie", "finalist", "slower", "rejected", "quality", "crashed", "void", "untried",
    "leads", "begun", "waits",  # of a search that is not over, for pick, rejected and untried
]  # fmt: skip


class Standing(Document, frozen=True, kw_only=True):
    """Where one candidate ended, or stands so far, and why."""

    candidate: Candidate
    state: State
    reason: str  # a sentence
    capacity: Capacity
    quality: QualityCheck | None = None
    num_jobs: int = 0
    spent_s: float = 0.0


class Gain(Document, frozen=True):
    """The pick's capacity over the baseline's, for the same money; null with a reason."""

    ratio: float | None  # of what both look like holding; quoted only where both are certified
    low: float | None  # what is certified of the pick over what is disproven of the baseline
    high: float | None  # what is disproven of the pick over what is certified of the baseline
    level: float  # chance that the truth lies outside
    reason: str = ""

    @property
    def is_proven(self) -> bool:
        """Beyond what both bounds leave open."""
        return self.low is not None and self.low > 1


class Compared(Document, frozen=True):
    """A figure that the planner had said before it was measured."""

    what: str  # "ttft mean, s"
    predicted: float
    measured: float


# Version history: 1, first.
class Recommendation(Document, frozen=True, kw_only=True):
    """The end of a campaign."""

    schema: str = "neoserve/recommendation/1"
    basis: str = "measured"
    workload: Workload  # its rate is the certified one
    slo: Slo
    pick: Standing
    baseline: Standing
    config: EngineConfig  # the pick's exact process
    trial: Trial | None  # that certifies it, or the best there is
    baseline_trial: Trial | None = None
    gain: Gain
    noise_share: float | None  # by which a limit over the baseline's differs between visits
    standings: tuple[Standing, ...]
    rejected: tuple[Rejected, ...] = ()
    compared: tuple[Compared, ...] = ()
    explained: tuple[str, ...] = ()  # the gain by what was counted, or why it cannot be
    num_jobs: int
    spent_s: float
    spent_usd: float | None = None
    ended_by: EndedBy
    usd_per_hour: float | None = None
    price_source: str = ""
    notes: tuple[str, ...] = ()
