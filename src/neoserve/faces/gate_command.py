"""`neoserve gate` as a command: what it prints, and what it leaves for GitHub."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from ..errors import Error
from . import gate_github as github
from .gate import exit_code, run
from .gate_tables import show_gate

Say = Callable[[str], None]


def command(
    args: argparse.Namespace, say: Say, show_json: Callable[[bytes], None], note: Say
) -> int:
    """Run it; returns the exit code. Raises Error, after telling GitHub of it."""
    try:
        found = run(args, note)
    except Error as error:
        if args.github:
            _annotate(args, [github.annotation("error", "NeoServe gate", str(error))], note)
            _append("GITHUB_OUTPUT", github.output({"verdict": "ERROR"}))
            _append("GITHUB_STEP_SUMMARY", github.failed_summary(str(error)))
        raise
    if args.benchmark_json:
        _write(Path(args.benchmark_json), github.benchmark_json(found))
    if args.github:
        _annotate(args, github.worst(found), note)
        _append("GITHUB_OUTPUT", github.output(github.outputs(found)))
        _append("GITHUB_STEP_SUMMARY", github.summary(found))
    if args.json:
        show_json(found.to_json())
    else:
        say(show_gate(found))
    return exit_code(found)


def _annotate(args: argparse.Namespace, lines: list[str], note: Say) -> None:
    text = "\n".join(lines)
    if args.annotations:
        _write(Path(args.annotations), f"{text}\n" if text else "")
    elif text:
        note(text)


def _append(variable: str, text: str) -> None:
    """To the file that a variable of the runner names; outside of one there is none."""
    if not (name := os.environ.get(variable)):
        return
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Error(f"{variable} names {name}, which cannot be written: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Error(f"{path} cannot be written: {error.strerror}") from None

