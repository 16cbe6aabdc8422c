"""`neoserve verify`: the chain, every artifact, and every figure from its raw rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import AskError
from ..evidence import ledger
from ..evidence.run import Run
from ..evidence.verify import verify_run
from ..measure.figures import Setting, judge_rows, pack_rows, recompute, rows_after_crash
from ..measure.schedule import parse
from ..schema.evidence import Verified
from ..schema.trial import SpooledRow
from ..units import show_count


def verify(path: Path, head: str, mend: bool, note: Callable[[str], None]) -> Verified:
    """Check a run folder, after mending what a crash left if asked to. Raises EvidenceBroken."""
    if not path.is_dir():
        raise AskError(f"{path} is no folder; expected a run folder with a ledger.jsonl")
    if mend:
        run = Run.open(path)
        if mended := ledger.repair(run.ledger_path):
            note(mended)
        judge_unfinished(run, note)
    return verify_run(path, head=head or None, recompute=recompute)


def judge_unfinished(run: Run, note: Callable[[str], None]) -> None:
    """Loads that a crash ended become trials, judged on the rows that were kept."""
    for left in run.unfinished():
        setting = Setting.parse(left.started.body.get("setting"), "the load's setting")
        schedule = run.blob(str(left.started.body.get("schedule")))
        spooled = [SpooledRow.parse_json(line, "a spooled row") for line in left.rows.splitlines()]
        rows = rows_after_crash(spooled, parse(schedule))
        trial = judge_rows(setting, rows, parse(schedule))
        run.record_trial(
            trial, rows=pack_rows(rows), schedule=schedule, started=left.started.seq
        )
        note(f"a load that a crash ended was judged on {len(spooled)} requests: {trial.verdict}")


def show_verified(path: str, found: Verified) -> str:
    """What was checked, in a sentence."""
    figures = (
        f", and all figures of {found.num_recomputed} trials follow from their rows"
        if found.num_recomputed
        else ""
    )
    unfinished = (
        f"\n{found.num_unfinished} load{'s' * (found.num_unfinished != 1)} ended in a crash; "
        "`--repair` judges what was kept of them"
        if found.num_unfinished
        else ""
    )
    return (
        f"{path} holds together: {show_count(found.num_entries)} ledger entries, "
        f"{show_count(found.num_blobs)} artifacts, each with its digest{figures}; "
        f"head {found.head}{unfinished}"
    )
