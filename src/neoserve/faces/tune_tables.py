"""A plan to search, and what a search found, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.campaign import Capacity, Gain, Recommendation, SearchPlan, Standing
from ..schema.space import Rejected
from ..tune.forecast import Forecast
from ..units import show_duration, show_usd, significant
from .tables import pairs, table, wrap

_MOST_ROWS = 12
_ORDER = ("pick", "tie", "finalist", "slower", "quality", "rejected", "crashed", "void", "untried")


def show_plan(plan: SearchPlan, rejected: Sequence[Rejected], expected: Forecast) -> str:
    """What `--dry-run` prints."""
    rows = [
        [str(i + 1), c.show(), c.origin, _rate(c.predicted_rps), "yes" if i in plan.guarded else ""]
        for i, c in enumerate(plan.candidates)
    ]
    text = table(["", "settings", "why", "predicted", "quality check"], rows,
                 [True, False, False, True, False])  # fmt: skip
    rungs = ", ".join(map(str, plan.rungs))
    jobs = ", ".join(f"{num} {name}" for name, num in expected.by_purpose.items())
    budget = f" The budget is {_budget(plan)}." if _budget(plan) else ""
    parts = [
        text,
        wrap(
            f"From {_rate(plan.start_rps)} on; rungs of {rungs} requests, then "
            f"{plan.num_certify} over {plan.num_seeds} seeds for the winner and the defaults.", "",
        ),
        wrap(
            f"If the predictions are right this takes about {show_duration(expected.spent_s)}: "
            f"{expected.num_jobs} jobs ({jobs}).{budget}", "",
        ),
    ]  # fmt: skip
    if rejected:
        lines = [f"  {r.candidate.show()}: {r.reason}" for r in rejected[:_MOST_ROWS]]
        more = len(rejected) - _MOST_ROWS
        lines += [f"  and {more} more"] if more > 0 else []
        parts.append("\n".join(["Never started:", *lines]))
    return "\n\n".join(parts)


def show_tuned(found: Recommendation, folder: str, head: str, as_json: bool) -> str:
    """What a search prints at its end."""
    return found.to_pretty_json() if as_json else show_found(found, folder, head)


def show_found(found: Recommendation, folder: str, head: str) -> str:
    """Answer first, then who was tried, then where the evidence is."""
    parts = [answer(found), standings(found.standings)]
    if found.explained:
        title = "Why it is faster" if found.gain.is_proven else "What was counted of the two"
        parts.append("\n".join([title, *(wrap(line) for line in found.explained)]))
    if facts := _facts(found):
        parts.append(pairs("", facts).strip("\n"))
    lines = [f"Check it   neoserve verify {folder} --head {head}"]
    if found.pick.capacity.low_rps is not None:
        lines = [
            f"Serve it   {folder}/recipe/run.sh, or another file of {folder}/recipe",
            f"Read on    {folder}/recipe/README.md: what it rests on, its limits",
            *lines,
        ]
    parts.append("\n".join(lines))
    if found.ended_by == "interrupted":
        parts.append(f"Go on: neoserve tune --resume {folder}")
    return "\n\n".join(parts)


def answer(found: Recommendation) -> str:
    """One sentence: what to run, what it holds, how much better that is."""
    pick, slo = found.pick, found.slo.show()
    capacity = pick.capacity
    if not has_run(found):
        return wrap(f"Nothing that was tried runs here: {found.baseline.reason}.", "")
    if capacity.low_rps is None:
        return wrap(f"Nothing that was tried keeps {slo} at any rate.", "")
    name = pick.candidate.show()
    who = name[0].upper() + name[1:] if not pick.candidate.knobs else name
    holds = (
        f"{who}: certified to hold {_rate(capacity.certified_rps)} within {slo}"
        if capacity.certified_rps is not None
        else f"{who}: looks like holding {_rate(capacity.low_rps)} within {slo}, not proven"
    )
    return wrap(f"{holds}{_cost(found)}. {gain(found.gain)}", "")


def has_run(found: Recommendation) -> bool:
    """Whether any server started."""
    return any(s.state not in ("crashed", "untried") for s in found.standings)


def gain(found: Gain) -> str:
    """Only what is proven, with its interval."""
    if found.ratio is None:
        return f"No gain over the engine's defaults is claimed: {found.reason}."
    low = f"{found.low:.2f}" if found.low is not None else "unknown"
    high = f"{found.high:.2f}" if found.high is not None else "unknown"
    interval = f"{found.ratio:.2f} times the engine's defaults ({low} to {high} certified)"
    return f"That is {interval}{'.' if found.is_proven else ': a gain is not proven.'}"


def _cost(found: Recommendation) -> str:
    cost = found.trial.cost if found.trial else None
    if cost is None or found.pick.capacity.certified_rps is None:
        return ""
    return f", at {show_usd(cost.usd_per_mtok_output)} per million output tokens"


def standings(found: Sequence[Standing]) -> str:
    """Those that say most first; the baseline is always among them."""
    ordered = sorted(found, key=lambda s: (_ORDER.index(s.state), -(s.capacity.low_rps or 0.0)))
    kept = ordered[:_MOST_ROWS]
    kept += [s for s in found[:1] if s not in kept]
    rows = [
        [s.candidate.show(), s.state, _bracket(s.capacity), _rate(s.capacity.certified_rps),
         s.reason]
        for s in kept
    ]  # fmt: skip
    text = table(["settings", "", "limit", "certified", "why"], rows,
                 [False, False, True, True, False])  # fmt: skip
    more = len(ordered) - len(kept)
    return f"{text}\nand {more} more in the ledger" if more > 0 else text


def _facts(found: Recommendation) -> list[tuple[str, str]]:
    rows = []
    if found.noise_share is not None:
        rows.append(("noise floor", f"{found.noise_share:.1%} between visits"))
    rows += [
        (f"predicted {pair.what}",
         f"{significant(pair.predicted, 3)}, measured {significant(pair.measured, 3)}")
        for pair in found.compared
    ]  # fmt: skip
    if found.pick.quality is not None:
        rows.append(("quality", found.pick.quality.reason))
    spent = f"{show_duration(found.spent_s)} of engine time, {found.num_jobs} jobs"
    if found.spent_usd is not None:
        spent += f", {show_usd(found.spent_usd)}"
    rows.append(("spent", f"{spent}; ended by {_ENDS[found.ended_by]}"))
    return rows


_ENDS = {
    "done": "itself: there was nothing left to try",
    "time": "the time budget",
    "trials": "the budget of trials",
    "money": "the money budget",
    "interrupted": "hand",
}


def _bracket(capacity: Capacity) -> str:
    low, high = capacity.low_rps, capacity.high_rps
    if low is None:
        return "" if high is None else f"below {_rate(high)}"
    return f"{significant(low, 3)} to {_rate(high)}" if high else f"above {_rate(low)}"


def _budget(plan: SearchPlan) -> str:
    parts = []
    if plan.budget_s:
        parts.append(show_duration(plan.budget_s))
    if plan.budget_trials:
        parts.append(f"{plan.budget_trials} trials")
    if plan.budget_usd:
        parts.append(show_usd(plan.budget_usd))
    return ", ".join(parts)


def _rate(rate_rps: float | None) -> str:
    return "" if rate_rps is None else f"{significant(rate_rps, 3)}/s"
