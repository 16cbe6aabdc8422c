"""`neoserve isa`: is the kernel that is paid for in the binary that runs?"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import msgspec

from ..errors import EXIT_MET, EXIT_NOT_MET, AskError
from ..schema.isa import IsaBinary, IsaFunction, IsaReport
from ..units import show_bytes, show_count
from .tables import table, wrap

Say = Callable[[str], None]

_LIBRARIES = {"numpy": "numpy", "elftools": "pyelftools", "iced_x86": "iced-x86"}
_SHOWN = 12  # functions of a file


class IsaAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve isa` was asked."""

    target: str = ""
    pid: int | None = None
    precision: str = ""
    only_named: bool = False


def isa(ask: IsaAsk, note: Say) -> IsaReport:
    """Raises AskError."""
    if bool(ask.target) == (ask.pid is not None):
        raise AskError("give one target: a file, wheel or package, or the --pid of a process")
    missing = [pip for name, pip in _LIBRARIES.items() if importlib.util.find_spec(name) is None]
    if missing:
        raise AskError(f"`neoserve isa` needs {' and '.join(missing)}: pip install "
                       "'neoserve[isa]'")  # fmt: skip
    from ..measure.isa.look import look
    from ..measure.isa.target import kind_of

    kind = "process" if ask.pid is not None else kind_of(ask.target)
    target = str(ask.pid) if ask.pid is not None else ask.target
    return look(kind, target, precision=ask.precision, only_named=ask.only_named, note=note)


def exit_code(found: IsaReport) -> int:
    """1 where a precision was asked for and is not proven present."""
    return EXIT_MET if found.verdict in (None, "PASS") else EXIT_NOT_MET


def show_isa(found: IsaReport) -> str:
    """For people: what is there, and that being there is all it shows."""
    telling = [b for b in found.binaries if b.forms or any(v.kernels for v in b.verdicts)]
    blocks = [_binary(binary) for binary in telling]
    if quiet := len(found.binaries) - len(telling):
        blocks.append(wrap(f"{quiet} more file{'s' * (quiet != 1)} without any such instruction",
                           ""))  # fmt: skip
    if found.skipped:
        blocks.append("\n".join(["Not looked into", *(wrap(f"{s.name}: {s.reason}")
                                                      for s in found.skipped[:5])]))  # fmt: skip
    if found.verdict is not None:
        blocks.append(wrap(f"{found.verdict} for {found.precision.upper()}: {found.reason}.", ""))
    blocks.append("Present is not executed: this says what the files hold, not what has run.")
    return "\n\n".join(blocks)


def _binary(binary: IsaBinary) -> str:
    names = "stripped" if binary.is_stripped else "with symbols"
    part = ""
    if binary.scanned_bytes < binary.code_bytes:
        part = f", {show_bytes(binary.scanned_bytes)} of it looked at"
    lines = [
        wrap(f"{binary.name}", ""),
        f"  {binary.architecture}, {show_bytes(binary.code_bytes)} of code{part}, "
        f"{show_count(binary.num_functions)} functions, {names}",
        f"  sha256 {binary.sha256}",
    ]
    if binary.forms:
        lines += ["", _forms(binary)]
    if binary.functions:
        lines += ["", _functions(binary)]
    if binary.verdicts:
        lines += ["", *(wrap(f"{v.precision.upper()}: {v.verdict}, {v.reason}")
                        for v in binary.verdicts)]  # fmt: skip
    return "\n".join(lines)


def _forms(binary: IsaBinary) -> str:
    """Counts, and how many of them lie in innermost loops."""
    is_arm = binary.architecture == "aarch64"
    header = ["instruction", "there", *(["in inner loops"] if is_arm else [])]
    rows = [
        [form, show_count(num), *([show_count(binary.in_inner_loops.get(form, 0))] * is_arm)]
        for form, num in binary.forms.items()
    ]
    return table(header, rows, [False] + [True] * (len(header) - 1))


def _functions(binary: IsaBinary) -> str:
    rows = [_row(function) for function in binary.functions[:_SHOWN]]
    left = len(binary.functions) - len(rows)
    more = f"\n  and {show_count(left)} more (--json lists them)" if left else ""
    header = ["function", "holds", "inner loop", "MAC a pass"]
    return table(header, rows, [False, False, False, True]) + more


def _row(function: IsaFunction) -> list[str]:
    fullest = max(function.loops, key=lambda loop: loop.macs, default=None)
    holds = ", ".join(f"{num} {form}" for form, num in function.forms.items())
    if fullest is None:
        return [readable(function.name), holds, "", ""]
    return [
        readable(function.name), holds,
        f"{sum(fullest.forms.values())} of {fullest.num_instructions} instructions",
        show_count(fullest.macs) if fullest.macs else "",
    ]  # fmt: skip


def readable(symbol: str) -> str:
    """The plain names within a C++ symbol (Itanium ABI); others as they are."""
    rest = symbol.removeprefix("_ZN").removeprefix("K")
    if rest == symbol:
        return symbol
    names = []
    while rest[:1].isdigit():
        digits = len(rest) - len(rest.lstrip("0123456789"))
        end = digits + int(rest[:digits])
        names.append(rest[digits:end].replace("_GLOBAL__N_1", "(anonymous)"))
        rest = rest[end:]
    return "::".join(names) or symbol
