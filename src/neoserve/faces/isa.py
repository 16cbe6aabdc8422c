"""`neoserve isa`: is the kernel that is paid for in the binary that runs?"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence

import msgspec

from ..errors import EXIT_MET, EXIT_NOT_MET, AskError
from ..schema.isa import IsaBinary, IsaFunction, IsaKernel, IsaReport
from ..units import show_bytes, show_count
from .tables import table, wrap

Say = Callable[[str], None]

_LIBRARIES = {"numpy": "numpy", "elftools": "pyelftools", "iced_x86": "iced-x86"}
_SHOWN, _SHOWN_OF_MANY = 12, 4  # functions of a file


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
    num_shown = _SHOWN if len(telling) == 1 else _SHOWN_OF_MANY
    is_many = len(found.binaries) > 1
    blocks = [_binary(binary, found.precision, num_shown, is_many) for binary in telling]
    if quiet := len(found.binaries) - len(telling):
        blocks.append(f"Files without any such instruction: {quiet}")
    if found.skipped:
        reasons = [wrap(f"{skipped.name}: {skipped.reason}") for skipped in found.skipped[:5]]
        blocks.append("\n".join([f"Not looked into: {len(found.skipped)}", *reasons]))
    if found.verdict is not None:
        blocks.append(wrap(f"{found.verdict} for {found.precision.upper()}: {found.reason}.", ""))
    blocks.append("Present is not executed: this says what the files hold, not what has run.")
    return "\n\n".join(blocks)


def _binary(binary: IsaBinary, precision: str, num_shown: int, is_one_of_many: bool) -> str:
    """Of one file the verdict that was asked for is the last line of all."""
    names = "without a symbol table" if binary.is_stripped else "with symbols"
    part = ""
    if binary.scanned_bytes < binary.code_bytes:
        part = f" ({show_bytes(binary.scanned_bytes)} looked at)"
    blocks = [
        f"{binary.name}\n  {binary.architecture}, {show_bytes(binary.code_bytes)} of code{part}, "
        f"{show_count(binary.num_functions)} functions, {names}\n  sha256 {binary.sha256}"
    ]
    if binary.forms:
        blocks.append(_forms(binary))
    asked = [v for v in binary.verdicts if v.precision == precision]
    if kernels := [kernel for verdict in asked for kernel in verdict.kernels]:
        blocks.append(_kernels(kernels, num_shown))
    elif binary.functions:
        blocks.append(_functions(binary, num_shown))
    if verdicts := asked if is_one_of_many else binary.verdicts if not precision else ():
        lines = [wrap(f"{v.precision.upper()} {v.verdict}: {v.reason}", "") for v in verdicts]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _kernels(kernels: Sequence[IsaKernel], num_shown: int) -> str:
    """Those that break their promise first."""
    lines = ["Kernels by name, and what their fullest inner loop holds of what it needs"]
    for kernel in sorted(kernels, key=lambda k: (k.carries is not False, k.carries is None)):
        found = ", ".join(f"{num} {form}" for form, num in kernel.found.items())
        held = f"{found} in {kernel.loop_instructions} instructions" if found else "nothing"
        lines += [f"  {kernel.name}", f"    {held if kernel.needs else 'not looked for'}"]
    left = len(kernels) - num_shown
    if left > 0:
        lines[1 + 2 * num_shown :] = [f"  and {show_count(left)} more (--json lists them)"]
    return "\n".join(lines)


def _forms(binary: IsaBinary) -> str:
    """Counts, and on Arm how many of them lie in innermost loops."""
    is_arm = binary.architecture == "aarch64"
    header = ["instruction", "there", *(["in inner loops"] if is_arm else [])]
    rows = [
        [form, show_count(num), *([show_count(binary.in_inner_loops.get(form, 0))] * is_arm)]
        for form, num in binary.forms.items()
    ]
    return table(header, rows, [False] + [True] * (len(header) - 1))


def _functions(binary: IsaBinary, num_shown: int) -> str:
    """Names are long: what a function holds stands below it."""
    lines = ["Functions that hold most"]
    for function in binary.functions[:num_shown]:
        lines += [f"  {readable(function.name)}", wrap(_holds(function), "    ")]
    if left := len(binary.functions) - num_shown:
        lines += [f"  and {show_count(left)} more (--json lists them)"] * (left > 0)
    return "\n".join(lines)


def _holds(function: IsaFunction) -> str:
    there = ", ".join(f"{num} {form}" for form, num in function.forms.items())
    fullest = max(function.loops, key=lambda loop: loop.macs, default=None)
    if fullest is None:
        return there
    macs = f", {show_count(fullest.macs)} MAC a pass" if fullest.macs else ""
    return (f"{there}; inner loop: {sum(fullest.forms.values())} of "
            f"{fullest.num_instructions} instructions{macs}")  # fmt: skip


def readable(symbol: str) -> str:
    """The plain names within a C++ symbol (Itanium ABI); others as they are."""
    start = re.match(r"_Z(N[KVrO]*|L)?", symbol)
    if start is None:
        return symbol
    names, rest = [], symbol[start.end() :]
    while (digits := re.match(r"L?([0-9]+)", rest)) is not None:
        end = digits.end() + int(digits[1])
        names.append(rest[digits.end() : end].replace("_GLOBAL__N_1", "(anonymous)"))
        rest = rest[end:] if symbol.startswith("_ZN") else ""
    return "::".join(names) + "<>" * rest.startswith("I") if names else symbol
