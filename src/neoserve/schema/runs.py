"""RunList, RunView, TrialStory: run folders as pages and agents read them."""

from __future__ import annotations

from typing import Literal

from .base import Document
from .campaign import Recommendation, Standing
from .capacity import MaxRate
from .engine import EngineConfig
from .evidence import LedgerEntry
from .profile import DeviceProfile
from .space import Candidate
from .trial import HostPrint, Summary, Trial, TrialCost
from .workload import Slo, Workload

RunStatus = Literal[
    "live",     # a load is being written, or an unfinished ledger is younger than ten minutes
    "ended",    # it holds what it was started for
    "stopped",  # it does not, and nothing writes to it: a campaign can be resumed
    "broken",   # its chain does not hold
]  # fmt: skip


class RunSummary(Document, frozen=True, kw_only=True):
    """One run folder."""

    id: str  # the folder's path below the results, with ~ for /
    kind: str  # tune, bench, calibrate ...
    model: str
    engine: str
    created: str  # UTC, ISO 8601
    status: RunStatus
    reason: str = ""  # why it is broken
    summary: str
    head: str  # SHA-256 of the ledger's last line
    num_entries: int
    num_trials: int


# Version history: 1, first.
class RunList(Document, frozen=True, kw_only=True):
    """The run folders below the results, newest first."""

    schema: str = "neoserve/run-list/1"
    runs: tuple[RunSummary, ...]


class TrialRow(Document, frozen=True, kw_only=True):
    """One trial of a run, without what only its own page needs."""

    number: int  # from 1
    line: int  # of the ledger, from 1
    digest: str  # SHA-256 of that line
    at: str
    purpose: str  # of a campaign's job, "" outside of one
    candidate: int | None
    settings: str
    engine: EngineConfig
    rate_rps: float
    concurrency: int
    verdict: str
    reasons: tuple[str, ...]
    stop: str
    saturated: bool
    load_limited: bool
    num_judged: int
    num_ok: int
    ttft_s: Summary
    tpot_s: Summary
    e2e_s: Summary
    output_tokens_per_s: float | None
    served_rps: float | None
    goodput_rps: float | None
    cost: TrialCost | None
    rows: str
    schedule: str
    log: str = ""


class Doing(Document, frozen=True, kw_only=True):
    """The load that runs now."""

    since: str
    rate_rps: float
    settings: str = ""


# Version history: 1, first.
class RunView(Document, frozen=True, kw_only=True):
    """A run folder in full, but for the raw rows. Null: the run has none."""

    schema: str = "neoserve/run-view/1"
    run: RunSummary
    workload: Workload | None
    slo: Slo | None
    host: HostPrint | None
    candidates: tuple[Candidate, ...] = ()
    standings: tuple[Standing, ...] = ()  # where each stands now
    doing: Doing | None = None
    recommendation: Recommendation | None = None
    max_rate: MaxRate | None = None
    profile: DeviceProfile | None = None
    trials: tuple[TrialRow, ...] = ()
    others: tuple[LedgerEntry, ...] = ()  # entries of other kinds: quality, crash, score ...
    files: tuple[str, ...] = ()


# Version history: 1, first.
class TrialStory(Document, frozen=True, kw_only=True):
    """One trial, and what it says."""

    schema: str = "neoserve/trial-story/1"
    basis: str = "measured"
    run: str
    number: int
    num_trials: int
    line: int
    digest: str
    at: str
    purpose: str
    candidate: int | None
    settings: str
    summary: str
    story: tuple[str, ...]  # sentences: what ran, under which load, what was proven
    standing: Standing | None  # of its candidate, by the whole campaign
    trial: Trial
    log: str = ""


# Version history: 1, first.
class CampaignState(Document, frozen=True, kw_only=True):
    """A campaign that this server started. Its run has the evidence."""

    schema: str = "neoserve/campaign-state/1"
    id: str  # of its run, once it has a ledger
    state: Literal["running", "stopping", "ended"]
    since: str  # UTC, ISO 8601
    elapsed_s: float
    exit_code: int | None  # 0 certified, 1 nothing keeps the SLO, 2 bad ask, 3 not proven, 4 failed
    lines: tuple[str, ...]  # the last of what it says


class CampaignList(Document, frozen=True, kw_only=True):
    """Campaigns of this server, the newest first."""

    schema: str = "neoserve/campaign-list/1"
    campaigns: tuple[CampaignState, ...]
