"""Look into a target: every ELF file of it, each with its digest."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from ...errors import AskError
from ...schema.isa import IsaBinary, IsaReport, IsaSkipped, Verdict
from . import arm
from .image import Image, read_image
from .target import Kind, Part, parts

Say = Callable[[str], None]

_ROOT = Path("/")


def look(
    kind: Kind, target: str, *, precision: str = "", only_named: bool = False, note: Say,
    root: Path = _ROOT,
) -> IsaReport:  # fmt: skip
    """Raises AskError where nothing of the target can be looked into, or none of it is for Arm
    and a precision is asked for."""
    binaries: list[IsaBinary] = []
    skipped: list[IsaSkipped] = []
    for part in parts(kind, target, root):
        if kind != "file":
            note(f"  {part.name}")
        try:
            binaries.append(_binary(part, precision, only_named))
        except AskError as error:
            if kind == "file":
                raise
            skipped.append(IsaSkipped(part.name, str(error).removeprefix(f"{part.name} ")))
        del part  # its memory, before the next one is read
    if not binaries:
        first = f"; first: {skipped[0].name}: {skipped[0].reason}" if skipped else ""
        what = f"process {target}" if kind == "process" else target
        raise AskError(f"{what} holds no ELF file that can be looked into{first}")
    verdict, reason = _together(binaries, precision) if precision else (None, "")
    return IsaReport(
        target=target, kind=kind, precision=precision, verdict=verdict, reason=reason,
        binaries=tuple(binaries), skipped=tuple(skipped),
    )  # fmt: skip


def _binary(part: Part, precision: str, only_named: bool) -> IsaBinary:
    if part.data is None:
        raise AskError(part.reason)
    image = read_image(part.name, part.data)
    is_arm = image.architecture == "aarch64"
    if not is_arm and (precision or only_named):
        asked = f"--precision {precision}" if precision else "--kernels"
        raise AskError(f"{part.name} is for {image.architecture}; {asked} is about kernels for "
                       "aarch64")  # fmt: skip
    sha256 = _hashing(image)
    return _of_arm(image, only_named, sha256) if is_arm else _of_x86(image, sha256)


def _hashing(image: Image) -> Callable[[], str]:
    """The file's digest, made beside the scan: hashing leaves the interpreter to it."""
    digest = hashlib.sha256()
    thread = threading.Thread(target=digest.update, args=(image.data,), daemon=True)
    thread.start()

    def sha256() -> str:
        thread.join()
        return digest.hexdigest()

    return sha256


def _of_arm(image: Image, only_named: bool, sha256: Callable[[], str]) -> IsaBinary:
    found = arm.inspect(image, only_named=only_named)
    return IsaBinary(
        name=image.name, sha256=sha256(), size_bytes=len(image.data), architecture="aarch64",
        code_bytes=_code_bytes(image), scanned_bytes=found.scanned_bytes,
        num_functions=found.num_functions, is_stripped=_is_stripped(image), forms=found.forms,
        in_inner_loops=found.in_inner_loops, num_in_data=found.num_in_data,
        functions=found.functions, verdicts=found.verdicts,
    )  # fmt: skip


def _of_x86(image: Image, sha256: Callable[[], str]) -> IsaBinary:
    from . import x86

    found = x86.inspect(image)
    return IsaBinary(
        name=image.name, sha256=sha256(), size_bytes=len(image.data), architecture="x86_64",
        code_bytes=_code_bytes(image), scanned_bytes=found.scanned_bytes,
        num_functions=found.num_functions, is_stripped=_is_stripped(image), forms=found.forms,
        in_inner_loops={}, num_undecoded=found.num_undecoded, functions=found.functions,
    )  # fmt: skip


def _code_bytes(image: Image) -> int:
    return sum(section.size for section in image.sections)


def _is_stripped(image: Image) -> bool:
    return all(table.name != ".symtab" for table in image.tables)


def _together(binaries: list[IsaBinary], precision: str) -> tuple[Verdict, str]:
    """FAIL if any fails, else PASS if any passes; whatever the rest of the target is."""
    judged = [(b, v) for b in binaries for v in b.verdicts if v.precision == precision]
    if len(judged) == 1:
        return judged[0][1].verdict, judged[0][1].reason
    for wanted in ("FAIL", "PASS"):
        for binary, verdict in judged:
            if verdict.verdict == wanted:
                return verdict.verdict, f"{binary.name}: {verdict.reason}"
    fullest, _ = max(judged, key=lambda both: sum(both[0].forms.values()))
    reason = next(v.reason for b, v in judged if b is fullest)
    return "ABSENT", f"none of {len(judged)} files; in the fullest, {fullest.name}, {reason}"
