"""Regenerate what the documentation takes from the code: `make docs`.

docs/accuracy.md   tables from the truth files in tests/data
docs/cli.md        every command's --help
--check            exit 1 if a file would change, and say which
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
BEGIN, END = "<!-- generated: {name} -->\n", "<!-- end generated -->"


def main() -> int:
    """Write or check every generated block."""
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as folder:
        blocks = {
            "docs/accuracy.md": {"kv": kv_tables(Path(folder))},
            "docs/cli.md": {"help": help_text()},
        }
    changed = [name for name, parts in blocks.items() if rewrite(ROOT / name, parts)]
    for name in changed:
        print(f"{name} {'is stale: run make docs' if '--check' in sys.argv else 'rewritten'}")
    return int(bool(changed) and "--check" in sys.argv)


def rewrite(path: Path, parts: dict[str, str]) -> bool:
    """Replace the blocks of a file; True if it changed (or would)."""
    before = text = path.read_text()
    for name, content in parts.items():
        head, rest = text.split(BEGIN.format(name=name), 1)
        text = head + BEGIN.format(name=name) + content + END + rest.split(END, 1)[1]
    if text != before and "--check" not in sys.argv:
        path.write_text(text)
    return text != before


def help_text() -> str:
    """The overview and the help of each command."""
    from neoserve.faces.cli import COMMANDS, overview, parser_of

    text = f"```\n{overview()}\n```\n\n"
    for command in COMMANDS:
        text += f"## neoserve {command.name}\n\n```\n{parser_of(command).format_help()}```\n\n"
    return text


def unpack(folder: Path) -> None:
    """The truth files in the layout that `neoserve accuracy` reads."""
    for packed in DATA.glob("*.jsonl.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    (folder / "model_configs").mkdir()
    for packed in DATA.glob("*configs.json.gz"):
        for name, config in json.loads(gzip.decompress(packed.read_bytes())).items():
            (folder / "model_configs" / name).write_text(json.dumps(config))


def kv_tables(folder: Path) -> str:
    """Exact cases by family, and the memory error."""
    from neoserve.faces import accuracy

    unpack(folder)
    (folder / "kv_capacity.jsonl").write_bytes((DATA / "kv_capacity.jsonl").read_bytes())
    titles = [
        ("kv_oracle.jsonl", "vLLM 0.32's own allocator, 116 models", accuracy.oracle),
        ("kv_families.jsonl", "The same, architectures that the first set lacks", accuracy.oracle),
        ("kv_capacity.jsonl", "Figures that engines logged", accuracy.logs),
    ]
    text = ""
    for name, title, compare in titles:
        if (folder / name).is_file():
            text += f"### {title}\n\n{markdown(compare(folder / name, []))}\n"
    return text


def markdown(document: dict) -> str:
    """One accuracy document as a table and a sentence."""
    lines = ["| family | cases | exact |", "|---|---:|---:|"]
    lines += [
        f"| {family} | {c['cases']} | {c['exact']} |"
        for family, c in sorted(document["by_family"].items())
    ]
    lines.append(f"| **all** | **{document['cases']}** | **{document['exact']}** |")
    text = "\n".join(lines) + "\n"
    if document["kind"] == "kv":
        memory = document["memory_error"]
        text += (
            f"\n{document['decided_exact']} of the {document['decided']} cases that their stated "
            f"values should decide are exact. Available KV memory from device and settings alone "
            f"(n = {memory['n']}): median error {memory['median']:.1%}, within 5 % in "
            f"{memory['within_5_percent']}.\n\n"
            "| not exact | basis | why |\n|---|---|---|\n"
        )
        for row in document["rows"]:
            if row["exact"] is not True:
                text += f"| {row['id']} | {row['basis']} | {row['note'] or 'see below'} |\n"
    return text


if __name__ == "__main__":
    sys.exit(main())
