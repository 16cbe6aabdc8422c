"""oneDNN's verbose log: who ran which implementation, and for how long.

Forms (oneDNN doc/performance_considerations/verbose.md of v1.1 to v3.9, src/common/verbose.cpp):

    dnnl_verbose,exec,cpu,…                      1.x and 2.x, `onednn_verbose` from 2.5
    onednn_verbose,info,prim_template:…          2.x and 3.0 to 3.2: names of the fields
    onednn_verbose,primitive,exec,cpu,…          3.3 and 3.4: the kind of API comes first
    onednn_verbose,v1,primitive,info,template:…  from 3.5: a version, and src:bf16 for src_bf16

A start time may stand before the kind of API, or before the operation. Lines of several processes
and of several copies of oneDNN may stand in one log, also in one line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from ...schema.dispatch import KernelRuns, OneDnnCopy, PrimitiveRuns

_MARK = re.compile(r"(?:onednn|dnnl)_verbose,")
_VERSION = re.compile(r"(?:oneDNN|DNNL) (v\S+)(?: \((?:commit|Git Hash) ([^)]*)\))?")
_TIME = re.compile(r"\d+\.\d+")
_KINDS = ("primitive", "graph", "common", "ukernel", "gemm_api")
_MEMORY = re.compile(r"(?P<name>[a-z]+)(?:_\d+)?[:_](?P<dtype>[a-z0-9_]+?):")
_INPUTS, _WEIGHTS, _OUTPUTS = ("src", "data"), ("wei",), ("dst",)
# Where a log has no names. Before 1.2 there were no attributes.
TEMPLATE = (
    "operation", "engine", "primitive", "implementation", "prop_kind", "memory_descriptors",
    "attributes", "auxiliary", "problem_desc", "exec_time",
)  # fmt: skip
_NEEDED = ("operation", "primitive", "implementation", "memory_descriptors", "exec_time")


_Key = TypeVar("_Key")


class Verbose(NamedTuple):
    """What a log says."""

    copies: tuple[OneDnnCopy, ...]
    primitives: tuple[PrimitiveRuns, ...]  # longest time first
    kernels: tuple[KernelRuns, ...]
    num_exec: int
    exec_s: float
    num_create: int
    create_s: float
    num_unread: int


def read_verbose(lines: Iterable[str]) -> Verbose:
    """All lines of a log, also those of the engine. Never raises: what it cannot read it counts."""
    reader = _Reader()
    for line in lines:
        if "_verbose," in line:
            for part in _MARK.split(line)[1:]:
                reader.read(part.rstrip("\r\n"))
    return reader.found()


class _Reader:
    def __init__(self) -> None:
        self.templates: dict[str, tuple[str, ...]] = {}  # by the version of the form
        self.copies: Counter[tuple[str, str]] = Counter()
        self.about: dict[tuple[str, str], dict[str, str]] = {}
        self.latest = ("", "")
        self.runs: Counter[tuple[str, str, str]] = Counter()
        self.times_s: dict[tuple[str, str, str], float] = {}
        self.kernels: Counter[str] = Counter()
        self.kernel_s: dict[str, float] = {}
        self.num_create, self.create_s, self.num_unread = 0, 0.0, 0

    def read(self, text: str) -> None:
        """One line after its mark."""
        fields = text.split(",")
        form = fields.pop(0) if re.fullmatch(r"v\d+", fields[0]) else ""
        if fields and _TIME.fullmatch(fields[0]):
            fields.pop(0)
        kind = fields.pop(0) if fields and fields[0] in _KINDS else "primitive"
        if fields and _TIME.fullmatch(fields[0]):
            fields.pop(0)
        if fields and fields[0] == "info":
            self._info(",".join(fields[1:]), form, kind)
        elif kind == "primitive" and fields:
            self._ran(fields, self.templates.get(form, TEMPLATE))

    def _info(self, text: str, form: str, kind: str) -> None:
        if match := _VERSION.match(text):
            self.latest = match[1], match[2] or ""
            self.copies[self.latest] += 1
            self.about.setdefault(self.latest, {})
        for key in ("cpu,runtime:", "cpu,isa:"):
            if text.startswith(key):
                self.about.setdefault(self.latest, {})[key[4:-1]] = text[len(key) :]
        head, found, names = text.partition("template:")
        if found and head in ("", "prim_") and kind == "primitive":
            self.templates[form] = tuple(
                name for name in names.split(",") if name and name != "timestamp"
            )

    def _ran(self, fields: list[str], template: tuple[str, ...]) -> None:
        operation = fields[0].partition(":")
        if operation[0] not in ("exec", "create", "create_nested"):
            return  # dispatch, check and error lines tell of no run
        try:
            seconds = float(fields[-1]) / 1e3
        except ValueError:
            # a failed check ends with a place in the source, and is no cut line
            self.num_unread += operation[2] not in ("check", "dispatch", "error", "start")
            return
        if operation[0] != "exec":
            self.num_create += operation[0] == "create"  # a nested one is within another's time
            self.create_s += seconds if operation[0] == "create" else 0.0
        elif operation[2] == "external":
            name = ",".join(fields[1:-1])
            self.kernels[name] += 1
            self.kernel_s[name] = self.kernel_s.get(name, 0.0) + seconds
        elif not operation[2]:
            self._exec(fields, template, seconds)

    def _exec(self, fields: list[str], template: tuple[str, ...], seconds: float) -> None:
        named = _named(fields, template)
        if named is None:
            self.num_unread += 1
            return
        key = (named["primitive"], named["implementation"], dtypes(named["memory_descriptors"]))
        self.runs[key] += 1
        self.times_s[key] = self.times_s.get(key, 0.0) + seconds

    def found(self) -> Verbose:
        total_s = sum(self.times_s.values())
        rows = [
            PrimitiveRuns(*key, self.runs[key], seconds, seconds / total_s if total_s else 0.0)
            for key, seconds in _longest(self.times_s)
        ]
        copies = [
            OneDnnCopy(*copy, isa=self.about[copy].get("isa", ""),
                       runtime=self.about[copy].get("runtime", ""), times=times)
            for copy, times in self.copies.items()
        ]  # fmt: skip
        kernels = [
            KernelRuns(name, self.kernels[name], seconds)
            for name, seconds in _longest(self.kernel_s)
        ]
        return Verbose(
            tuple(copies), tuple(rows), tuple(kernels), sum(self.runs.values()), total_s,
            self.num_create, self.create_s, self.num_unread,
        )  # fmt: skip


def _longest(times_s: dict[_Key, float]) -> list[tuple[_Key, float]]:
    return sorted(times_s.items(), key=lambda item: item[1], reverse=True)


def _named(fields: list[str], template: tuple[str, ...]) -> dict[str, str] | None:
    """The needed fields by name. Attributes may hold commas: what follows them counts from the
    end. Old forms lack the attributes."""
    cut = template.index("attributes") if "attributes" in template else len(template)
    if len(fields) < len(template) - 1 or not set(_NEEDED) <= set(template):
        return None
    found = {}
    for name in _NEEDED:
        place = template.index(name)
        found[name] = fields[place] if place < cut else fields[place - len(template)]
    return found if found["implementation"] or found["primitive"] else None


def dtypes(memory: str) -> str:
    """``src:bf16:a:blocked:ab::f0 wei:… dst:…`` → ``"bf16:bf16:bf16"``, as benchdnn's --dt; a
    primitive without weights has two."""
    found: dict[str, str] = {}
    for part in memory.split(" "):
        if (match := _MEMORY.match(part)) and match["dtype"] != "undef":
            found.setdefault(match["name"], match["dtype"])
    parts = [
        next((found[name] for name in names if name in found), "")
        for names in (_INPUTS, _WEIGHTS, _OUTPUTS)
    ]
    return ":".join(part for part in parts if part)
