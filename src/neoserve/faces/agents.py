"""Answers for a context window: a sentence, and the document without what goes without saying.

What is left out of a document is what its schema gives as a default, so that it reads back as the
same document; and the end of a long list, which the sentence tells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ..schema.answers import HardwareList, ModelList
from ..schema.base import Document
from ..schema.evidence import Verified
from ..schema.prediction import Prediction
from ..schema.recipe import Written
from ..schema.runs import CampaignState, RunList, TrialStory
from ..schema.view import devices, inside, within
from ..units import show_count, show_duration, show_usd

LIST_BYTES = 16_000  # of one list's JSON
_ALWAYS = ("schema", "basis")


class Told(NamedTuple):
    """What an agent gets."""

    sentence: str
    document: dict[str, Any]


def told(document: Document) -> Told:
    """A document for an agent."""
    cut: list[str] = []
    short = _short(document, "", cut)
    more = f" Left out of this answer: {'; '.join(cut)}." if cut else ""
    return Told(sentence(document) + more, short)


def _short(value: Any, name: str, cut: list[str]) -> Any:
    if isinstance(value, msgspec.Struct):
        kept = {
            field.encode_name: getattr(value, field.name)
            for field in msgspec.structs.fields(value)
            if field.name in _ALWAYS or getattr(value, field.name) != _default(field)
        }
        return {key: _short(item, f"{name}.{key}".lstrip("."), cut) for key, item in kept.items()}
    if isinstance(value, dict):
        return {key: _short(item, f"{name}.{key}", cut) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _some(value, name, cut)
    return msgspec.to_builtins(value)


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _some(values: Any, name: str, cut: list[str]) -> list[Any]:
    """As many as there is room for, at least one."""
    found: list[Any] = []
    num_bytes = 0
    for value in values:
        short = _short(value, name, cut)
        num_bytes += len(msgspec.json.encode(short))
        if found and num_bytes > LIST_BYTES:
            cut.append(f"{len(values) - len(found)} of {len(values)} {name}")
            break
        found.append(short)
    return found


def sentence(document: Document) -> str:
    """What a person would say of it, with the basis of its figures."""
    if isinstance(document, Prediction):
        return _prediction(document)
    if isinstance(document, TrialStory):
        return document.summary
    if isinstance(document, Verified):
        return (
            f"The evidence holds together: {document.num_entries} ledger entries, "
            f"{document.num_blobs} artifacts, {document.num_recomputed} of {document.num_trials} "
            f"trials computed again from raw rows; head {document.head}."
        )
    if isinstance(document, Written):
        return _written(document)
    if isinstance(document, CampaignState):
        return _campaign(document)
    if isinstance(document, RunList):
        kinds = "; ".join(f"{run.id} ({run.kind}, {run.status})" for run in document.runs[:12])
        return f"{len(document.runs)} measured runs{inside(kinds)}."
    if isinstance(document, HardwareList):
        return (
            f"{len(document.hardware)} of {document.num_matching} matching devices in full, with "
            "published figures and prices; `ids` lists all that match: narrow with name."
        )
    if isinstance(document, ModelList):
        return (
            f"{len(document.models)} of {document.num_matching} matching models; narrow with name."
        )
    said = getattr(document, "summary", "")
    return f"{said} Basis: {getattr(document, 'basis', 'predicted')}."


def _prediction(p: Prediction) -> str:
    who = f"{p.model} on {devices(p)} with {p.deployment.engine}"
    if not p.starts:
        return f"{who} would not start (predicted): {p.refusal}."
    parts = []
    if p.latency is not None:
        for title, key, found in (("TTFT", "ttft_s", p.latency.ttft_s),
                                  ("TPOT", "tpot_s", p.latency.tpot_s)):  # fmt: skip
            span = within(show_duration, p.interval.get(key))
            parts.append(f"{title} {show_duration(found.mean)} on average{inside(span)}")
    if p.throughput is not None:
        parts.append(f"{show_count(p.throughput.output_tokens_per_s)} output tokens/s")
    if p.cost is not None:
        parts.append(f"{show_usd(p.cost.usd_per_mtok_output)} per million output tokens "
                     f"({p.cost.price_basis})")  # fmt: skip
    slo = {None: "", True: " The SLO is expected to be met", False: " The SLO is expected to be "
           "missed"}[p.meets_slo]  # fmt: skip
    sure = f", {p.slo_share:.0%} sure" if p.slo_share is not None and p.meets_slo else ""
    return (
        f"{who}, predicted, not measured: {', '.join(parts)}; {p.bound} limits it."
        f"{slo}{sure}{'.' if slo else ''}"
    )


def _campaign(found: CampaignState) -> str:
    last = f" Last: {found.lines[-1].strip()}" if found.lines else ""
    if found.state != "ended":
        return (
            f"Campaign {found.id} is {found.state} since {show_duration(found.elapsed_s)}; "
            f"tune_status tells how it goes, stop_tune ends it.{last}"
        )
    ends = {0: "something is certified", 1: "nothing keeps the SLO", 2: "the ask was refused",
            3: "nothing was proven", 4: "the engine or the host failed"}  # fmt: skip
    how = ends.get(found.exit_code or 0, f"exit code {found.exit_code}")
    return (
        f"Campaign {found.id} ended after {show_duration(found.elapsed_s)}: {how}; list_runs, "
        f"explain_trial and get_serving_recipe have its evidence.{last}"
    )


def _written(found: Written) -> str:
    names = ", ".join(found.files)
    missing = "".join(f" {name} is left out: {why}." for name, why in found.left_out.items())
    read = "the text is in `texts`" if found.texts else "name one kind with `to` for its text"
    return (
        f"Serves what was measured, word for word: {names}; {read}. It rests on ledger head "
        f"{found.head}.{missing}"
    )


def output_schema(answer: type[Document]) -> dict[str, Any]:
    """JSON Schema of a document, an object at its root as agents' protocol asks for."""
    found = msgspec.json.schema(answer)
    root = found["$defs"].pop(answer.__name__)
    return {**root, "$defs": found["$defs"]} if found["$defs"] else dict(root)
