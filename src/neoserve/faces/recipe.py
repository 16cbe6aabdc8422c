"""`neoserve recipe`: the files that serve what a campaign picked."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..errors import AskError, Error
from ..evidence.recommended import recommended
from ..recipe.bundle import KINDS, Bundle, bundle
from ..schema.recipe import Written

_RUNNABLE = (".sh",)


def write_recipe(run: Path, to: str, out: str, volume: float | None) -> tuple[Written, Bundle]:
    """Make the files, and write them where `out` names a folder. Raises AskError."""
    if volume is not None and volume <= 0:
        raise AskError(f"--output-tokens-per-month {volume:g} has to be above 0")
    found = recommended(run)
    made = bundle(
        found.recommendation,
        found.head,
        to=None if to == "all" else (to,),
        output_tokens_per_month=volume,
    )
    if out:
        _write(Path(out), made.files)
    files = {n: hashlib.sha256(text.encode()).hexdigest() for n, text in made.files.items()}
    texts = {} if to == "all" else dict(made.files)
    written = Written(
        run=str(run), head=found.head, files=files, left_out=made.left_out, texts=texts
    )
    return written, made


def _write(folder: Path, files: dict[str, str]) -> None:
    """Files of the same names are written anew: the same run gives the same text."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = folder / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755 if path.suffix in _RUNNABLE else 0o644)
    except OSError as error:
        raise Error(f"{folder} cannot be written to: {error.strerror}") from None


def check_out(to: str, out: str, as_json: bool, num_files: int) -> None:
    """Several files need a folder. Raises AskError."""
    if not out and not as_json and num_files > 1:
        raise AskError(
            f"--to {to} makes {num_files} files: name a folder with --out, or one file's kind of "
            f"{', '.join(KINDS)}"
        )


def show_written(written: Written, out: str) -> str:
    """What is where, and what is not."""
    width = max(map(len, written.files))
    lines = [f"{out.rstrip('/')}/"]
    lines += [f"  {name.ljust(width)}  {digest[:12]}" for name, digest in written.files.items()]
    lines += [f"not written: {name}: {reason}" for name, reason in written.left_out.items()]
    return "\n".join([*lines, f"ledger head {written.head}"])
