"""May two loads be held against each other? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..schema.engine import EngineConfig
from ..schema.gate import Allowed
from ..schema.imported import Imported
from ..schema.trial import HostPrint, Trial
from ..schema.workload import Workload

_HOST = ("cpu_model", "isa", "logical_cpus", "quota_cores", "memory_bytes", "kernel", "governor",
         "smt", "thp")  # fmt: skip
_OF_LOAD = ("arrival", "request_rate_rps", "max_concurrency", "model")


def unlike_trials(after: Trial, before: Trial) -> Iterator[tuple[Allowed, str]]:
    """What differs beside what is measured, as a kind and in words."""
    if told := _hosts(after.host, before.host):
        yield "host", told
    if told := _engines(after.engine, before.engine):
        yield "engine", told
    if told := _differing(after.workload.replace(seed=0), before.workload.replace(seed=0),
                          Workload.__struct_fields__):  # fmt: skip
        yield "workload", told


def unlike_imports(after: Imported, before: Imported) -> Iterator[tuple[Allowed, str]]:
    """The same of two files of other tools; hosts are not in them."""
    if told := _differing(after, before, _OF_LOAD):
        yield "workload", told
    for metric, meanings in after.unlike(before):
        yield "definitions", f"{metric}: {meanings}"


def _hosts(after: HostPrint, before: HostPrint) -> str:
    return "" if after.identity == before.identity else _differing(after, before, _HOST)


def _engines(after: EngineConfig, before: EngineConfig) -> str:
    sides = [
        {"engine": c.engine, "version": c.version, "model": c.model, "argv": _words(c.argv),
         "env": c.env}
        for c in (after, before)
    ]  # fmt: skip
    return "; ".join(
        f"{name} {_short(sides[0][name])} against {_short(sides[1][name])}"
        for name in sides[0]
        if sides[0][name] != sides[1][name]
    )


def _words(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line without the port; paths count by their last part, wherever they lie."""
    pairs = zip(("", *argv), argv, strict=False)
    return tuple(word.rsplit("/", 1)[-1] if word.startswith("/") else word
                 for before, word in pairs if "--port" not in (before, word))  # fmt: skip


def _differing(after: object, before: object, names: Sequence[str]) -> str:
    return "; ".join(
        f"{name} {_short(getattr(after, name))} against {_short(getattr(before, name))}"
        for name in names
        if getattr(after, name) != getattr(before, name)
    )


def _short(value: object) -> str:
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
