"""`neoserve dispatch`: which code ran, by oneDNN's log, by samples, by what is mapped."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..errors import EXIT_INCONCLUSIVE, EXIT_MET, EXIT_NOT_MET, AskError
from ..measure.dispatch import mapped_libraries, parse_report, read_verbose, record
from ..measure.engine.proc import descendants
from ..schema.dispatch import DispatchReport, Ran
from ..units import show_bytes, show_duration
from .tables import table

Say = Callable[[str], None]

_SHOWN_SHARE = 0.001
_MOST_ROWS = 20
# Libraries that decide what runs; the document has all of them.
_TELLING = re.compile(
    r"torch|dnn|acl|arm_compute|kleidi|ggml|llama|onnx|_C\b|omp|mkl|blas|malloc|c10", re.IGNORECASE
)


class DispatchAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve dispatch` was asked."""

    log: str = ""
    perf: str = ""  # a report of perf that was kept
    pid: int = 0
    duration_s: float = 10.0
    ran: str = ""  # a pattern


def dispatch(ask: DispatchAsk, note: Say) -> DispatchReport:
    """Raises AskError."""
    if not (ask.log or ask.perf or ask.pid):
        raise AskError("nothing to look at was named; give --log FILE, --perf FILE or --pid PID")
    if ask.pid and ask.perf:
        raise AskError("--perf is a report that was kept, --pid takes samples; give one of them")
    try:
        pattern = re.compile(ask.ran)
    except re.error as error:
        raise AskError(f"--ran {ask.ran!r} is no regular expression: {error}") from None
    found = DispatchReport()
    if ask.log:
        found = _of_log(found, Path(ask.log))
    if ask.perf:
        samples = parse_report(_text(Path(ask.perf)))
        found = found.replace(event=samples.event, num_samples=samples.num, symbols=samples.symbols)
    if ask.pid:
        found = _of_process(found, ask.pid, ask.duration_s, note)
    return found.replace(asked=ask.ran, ran=_matching(found, pattern)) if ask.ran else found


def exit_code(found: DispatchReport) -> int:
    """Of --ran: 0 it ran, 1 it did not, 3 nothing was seen that could tell. Else 0."""
    if not found.asked or found.ran:
        return EXIT_MET
    return EXIT_NOT_MET if found.num_exec or found.symbols else EXIT_INCONCLUSIVE


def _of_log(found: DispatchReport, path: Path) -> DispatchReport:
    digest = hashlib.sha256()

    def lines() -> Iterator[str]:
        with path.open("rb") as file:
            for line in file:
                digest.update(line)
                yield line.decode(errors="replace")

    try:
        said = read_verbose(lines())
    except OSError as error:
        raise AskError(f"{path}: {error.strerror}") from None
    absent = found.absent
    if not said.num_exec:
        absent += (
            f"{path.name} has no executions of oneDNN: start the engine with ONEDNN_VERBOSE=1, in "
            "a run of its own",
        )
    return found.replace(log=f"sha256:{digest.hexdigest()}", absent=absent, **said._asdict())


def _of_process(found: DispatchReport, pid: int, duration_s: float, note: Say) -> DispatchReport:
    if not Path(f"/proc/{pid}").is_dir():
        raise AskError(f"--pid {pid}: no such process; give that of the server or of its launcher")
    pids = (pid, *descendants(pid))
    note(f"sampling {len(pids)} process{'es' * (len(pids) != 1)} for {show_duration(duration_s)}")
    samples = record(pids, duration_s)
    libraries = mapped_libraries(pids)
    absent = found.absent
    if not libraries:
        absent += (f"no libraries: the memory of process {pid} may not be read by this user",)
    if isinstance(samples, str):
        absent += (samples,)
    else:
        found = found.replace(event=samples.event, num_samples=samples.num, symbols=samples.symbols)
    return found.replace(pids=pids, libraries=libraries, absent=absent)


def _matching(found: DispatchReport, pattern: re.Pattern[str]) -> tuple[Ran, ...]:
    """What ran and matches; a library that is mapped only might have run."""
    rows = [
        Ran(f"{p.primitive} {p.implementation} {p.dtypes}", p.share, "executions' time")
        for p in found.primitives
    ]
    rows += [
        Ran(kernel.name, kernel.seconds / found.exec_s if found.exec_s else 0.0, "executions' time")
        for kernel in found.kernels
    ]
    rows += [
        Ran(symbol.name, symbol.share, "samples")
        for symbol in found.symbols
        if symbol.share > 0
    ]
    return tuple(row for row in rows if pattern.search(row.name))


def show_dispatch(found: DispatchReport) -> str:
    """Tables of what was seen, and why the rest was not."""
    parts = [*_shown_log(found), *_shown_samples(found), *_shown_libraries(found)]
    parts += list(found.absent)
    if found.asked:
        rows = [f"  {row.name}: {row.share:.1%} of {row.of}" for row in found.ran]
        parts.append("\n".join([f"--ran {found.asked}:", *(rows or ["  nothing that was seen"])]))
    return "\n\n".join(parts)


def _shown_log(found: DispatchReport) -> list[str]:
    if not found.num_exec:
        return []
    heads = [
        " ".join(part for part in (f"oneDNN {c.version}", c.isa and f"({c.isa})",
                                   f"said {c.times} times" if c.times > 1 else "") if part)
        for c in found.copies
    ]  # fmt: skip
    if len(found.copies) > 1:
        heads.append("several copies wrote this log; a line does not say which of them")
    rows = [
        (p.primitive, p.implementation, p.dtypes, f"{p.num:,}", show_duration(p.seconds),
         f"{p.share:.1%}")
        for p in found.primitives
        if p.share >= _SHOWN_SHARE
    ]  # fmt: skip
    header = ("primitive", "implementation", "types", "runs", "time", "share")
    parts = ["\n".join(heads)] if heads else []
    parts.append(table(header, rows[:_MOST_ROWS], (False, False, False, True, True, True)))
    counts = [f"{found.num_exec:,} executions, {show_duration(found.exec_s)}"]
    if found.num_create:
        counts.append(f"{found.num_create:,} made in {show_duration(found.create_s)}")
    if found.num_unread:
        counts.append(f"{found.num_unread:,} lines were cut or are unknown")
    parts.append("; ".join(counts))
    if found.kernels:
        inner = [(k.name, f"{k.num:,}", show_duration(k.seconds)) for k in found.kernels]
        parts.append(
            table(("kernel that it called", "runs", "time"), inner[:_MOST_ROWS],
                  (False, True, True))
        )  # fmt: skip
    return parts


def _shown_samples(found: DispatchReport) -> list[str]:
    if not found.symbols:
        return []
    rows = [
        (s.name, s.library, "" if s.total_share is None else f"{s.total_share:.1%}",
         f"{s.self_share:.1%}")
        for s in found.symbols[:_MOST_ROWS]
    ]  # fmt: skip
    head = f"{found.num_samples or 'an unknown number of'} samples of {found.event or 'an event'}"
    header = ("function", "library", "with callees", "itself")
    return [head, table(header, rows, (False, False, True, True))]


def _shown_libraries(found: DispatchReport) -> list[str]:
    telling = [one for one in found.libraries if _TELLING.search(Path(one.path).name)]
    if not found.libraries:
        return []
    rows = [
        (Path(one.path).name, show_bytes(one.size_bytes), f"{len(one.pids)}", one.sha256[:16])
        for one in telling
    ]
    header = ("mapped library", "size", "processes", "SHA-256")
    parts = [table(header, rows, (False, True, True, False))] if rows else []
    count = f"{len(found.libraries)} files are mapped; --json has all, with whole digests"
    return [*parts, count]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise AskError(f"{path}: {error.strerror}") from None
