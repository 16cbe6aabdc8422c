"""Regenerate what the documentation takes from the code: `make docs`.

README.md          a plan and the claims
docs/accuracy.md   tables from the truth files in tests/data, and from docs/left_out.json
docs/accuracy.svg  the same rows, predicted against measured
docs/cli.md        every command's --help
docs/space.md      the knobs of each engine
docs/calibrating.md  the table of results/calibration
docs/fleet.md      the example fleet
docs/graviton.md   the published table beside predictions; docs/graviton.svg, examples/graviton
--check            exit 1 if a file would change, and say which
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path

import graviton
from space_tables import space_tables

from neoserve.catalog.intervals import resolve_spread, table
from neoserve.faces import accuracy
from neoserve.faces.accuracy_plot import accuracy_svg
from neoserve.faces.beside_tables import svg
from neoserve.faces.cli import main as main_of_cli
from neoserve.faces.latency import (
    HEADER,
    answers,
    latency_table,
    read_csv,
    report,
    slice_rows,
)
from neoserve.schema.spread import Spread

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
PICTURE = "Public rows with an open licence; the fit had seen their sources"
TOLD = ("single_tpot", "batched_tpot", "ttft")  # the metrics of the short tables
BEGIN, END = "<!-- generated: {name} -->\n", "<!-- end generated -->"


def main() -> int:
    """Write or check every generated block."""
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(folder)
        kv, found = kv_documents(folder), answers(read_csv(folder / "latency_rows.csv"))
    speed = report("latency_rows.csv", found)
    left_out = json.loads((ROOT / "docs" / "left_out.json").read_text())
    sides = graviton.asked()
    whole = {
        "docs/accuracy.svg": accuracy_svg(found, typical_spread(), PICTURE),
        "docs/graviton.svg": svg(sides),
        **graviton.quantizers(),
    }
    blocks = {
        "README.md": {"claims": claims(kv, speed, left_out)},
        "docs/accuracy.md": {
            "kv": kv_tables(kv),
            "left out": left_out_tables(left_out),
            "slices": slice_table(speed),
            "latency": latency_tables(speed),
        },
        "docs/cli.md": {"help": help_text()},
        "docs/space.md": {"knobs": space_tables()},
        "docs/calibrating.md": {"heldout": calibration_table()},
        "docs/graviton.md": {
            "sides": graviton.side_table(sides),
            "claims": graviton.claim_table(),
            "campaigns": graviton.cost_table(),
        },
    }
    # the example tells the age of prices, which changes with the day; another release of the
    # solver may choose another of several mixes at the same cost
    if "--check" not in sys.argv:
        blocks["README.md"]["example"] = example()
        blocks["docs/fleet.md"] = {"example": shown("fleet examples/fleet/fleet.toml --offline")}
    changed = [name for name, parts in blocks.items() if rewrite(ROOT / name, parts)]
    changed += [name for name, text in whole.items() if replace(ROOT / name, text)]
    for name in changed:
        print(f"{name} {'is stale: run make docs' if '--check' in sys.argv else 'rewritten'}")
    return int(bool(changed) and "--check" in sys.argv)


def calibration_table() -> str:
    """As the experiment left it."""
    return (ROOT / "results" / "calibration" / "table.md").read_text()


def rewrite(path: Path, parts: dict[str, str]) -> bool:
    """Replace the blocks of a file; True if it changed (or would)."""
    before = text = path.read_text()
    for name, content in parts.items():
        head, rest = text.split(BEGIN.format(name=name), 1)
        text = head + BEGIN.format(name=name) + content + END + rest.split(END, 1)[1]
    if text != before and "--check" not in sys.argv:
        path.write_text(text)
    return text != before


def replace(path: Path, text: str) -> bool:
    """Write a file; True if it changed (or would)."""
    changed = not path.exists() or path.read_text() != text
    if changed and "--check" not in sys.argv:
        path.write_text(text)
    return changed


def help_text() -> str:
    """The overview and the help of each command."""
    from neoserve.faces.cli import COMMANDS, overview, parser_of

    text = f"```\n{overview()}\n```\n\n"
    for command in COMMANDS:
        text += f"## neoserve {command.name}\n\n```\n{parser_of(command).format_help()}```\n\n"
    return text


def unpack(folder: Path) -> None:
    """The truth files in the layout that `neoserve accuracy` reads."""
    for packed in (*DATA.glob("*.jsonl.gz"), *DATA.glob("*.csv.gz")):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    (folder / "kv_capacity.jsonl").write_bytes((DATA / "kv_capacity.jsonl").read_bytes())
    (folder / "model_configs").mkdir()
    for packed in DATA.glob("*configs.json.gz"):
        for name, config in json.loads(gzip.decompress(packed.read_bytes())).items():
            (folder / "model_configs" / name).write_text(json.dumps(config))


def kv_documents(folder: Path) -> list[dict]:
    """`accuracy oracle` on both sets, `accuracy kv`."""
    return [
        accuracy.oracle(folder / "kv_oracle.jsonl", []),
        accuracy.oracle(folder / "kv_families.jsonl", []),
        accuracy.logs(folder / "kv_capacity.jsonl", []),
    ]


def kv_tables(documents: list[dict]) -> str:
    """Exact cases by family, and the memory error."""
    titles = ("vLLM 0.32's own allocator, 116 models",
              "The same code, architectures that the first set lacks",
              "Figures that engines logged")  # fmt: skip
    return "\n".join(
        f"### {title}\n\n{markdown(document)}"
        for title, document in zip(titles, documents, strict=True)
    )


def latency_tables(document: dict) -> str:
    """Errors by metric, first by architecture, then by engine and device class."""
    text = ""
    for group, title in (("by_arch", "architecture"), ("by_engine", "engine"),
                         ("by_device_class", "device class")):  # fmt: skip
        rows = [r for r in latency_table(document, group) if r[0] in TOLD or group == "by_arch"]
        text += f"### By {title}\n\n" + grid(["metric", title, *HEADER[2:]], rows) + "\n"
    return text + f"{document['answered']:,} of {document['cases']:,} figures answered.\n"


def slice_table(document: dict) -> str:
    """Errors and coverage of the slices."""
    return grid(["metric", "slice", *HEADER[2:]], slice_rows(document))


def typical_spread() -> Spread:
    """Widths without any group's factor, for a bench that no fit has seen."""
    return resolve_spread({**table(), "benches": {}}, "", "", "new")


SETTINGS = {
    "new": "### Sources left out of the fit\n\nWhat a user with a bench of their own meets: one "
           "source at a time, fit and intervals from all others.",
    "seen": "### Models left out, of sources that the fit had seen\n\nWhat `accuracy latency` "
            "says of a source in the catalog, and what a device profile brings.",
}  # fmt: skip
LEFT_OUT = ["metric", "architecture", "n", "sources", "devices", "median", "mean", "p90", "bias",
            "inside", "inside, by source", "high / low"]  # fmt: skip


def kept_where(by_flag: dict) -> str:
    """A sentence: of which metrics the share inside is more than three points off the level."""
    off = [
        f"{flag} ({groups['all']['coverage']:.0%}, {groups['all']['sources']} sources)"
        for flag, groups in by_flag.items()
        if abs(groups["all"]["coverage"] - 0.9) > 0.03 + 1e-9
    ]
    if not off:
        return "Every metric is within 87 to 93 % inside."
    return f"Not within 87 to 93 % inside: {', '.join(off)}."


def left_out_tables(summary: dict) -> str:
    """Errors and coverage of the 90 % intervals where the fit had not looked."""
    text = ""
    for setting, title in SETTINGS.items():
        rows = [
            [flag, name, str(s["n"]), str(s["sources"]), str(s["devices"]),
             f"{s['median_ape']:.1%}", f"{s['mape']:.1%}", f"{s['p90_ape']:.0%}",
             f"{s['bias']:+.1%}", f"{s['coverage']:.0%}", f"{s['source_coverage']:.0%}",
             f"{s['high_over_low']:.2f}"]
            for flag, groups in summary[setting].items()
            for name, s in groups.items()
        ]  # fmt: skip
        text += f"{title}\n\n{grid(LEFT_OUT, rows)}\n{kept_where(summary[setting])}\n\n"
    return text + f"Fitted {summary['date']}.\n"


def grid(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def claims(kv: list[dict], speed: dict, left_out: dict) -> str:
    """The rows of the README's table."""
    oracle, families, logs = kv
    memory = logs["memory_error"]
    dense, moe = (speed["by_arch"][arch] for arch in ("dense", "moe"))

    def error(by_flag: dict, flag: str) -> str:
        return f"{by_flag[flag]['median_ape']:.0%}"

    def unseen(setting: str, arch: str) -> str:
        found = [left_out[setting][flag][arch] for flag in TOLD]
        errors = ", ".join(f"{s['median_ape']:.0%}" for s in found)
        return f"{sum(s['n'] for s in found):,} public figures | median error {errors} |\n"

    # Open loads are predicted by coefficients that saw closed loads of the same sources.
    everything = [
        groups["all"]
        for flag, groups in left_out["new"].items()
        if not flag.startswith("openloop")
    ]
    held = sum(s["n"] for s in everything)
    inside = sum(s["n"] * s["coverage"] for s in everything) / held
    n = sum(dense[f]["n"] for f in TOLD)
    m = sum(moe[f]["n"] for f in TOLD)
    return (
        "| prediction | against | result |\n|---|---|---|\n"
        "| KV blocks, tokens, concurrency, refusals | vLLM 0.32's own allocator code, "
        f"{oracle['cases'] + families['cases']:,} cases | "
        f"{oracle['exact'] + families['exact']:,} exact |\n"
        f"| the same, against logs | {logs['cases']} start-up logs | {logs['exact']} exact, "
        f"{logs['chosen_afterwards']} of them only under an engine version chosen afterwards; the "
        "others lack what decides them, case by case in docs/accuracy.md |\n"
        f"| memory left for KV, from the spec sheet alone | {memory['n']} logs | median error "
        f"{memory['median']:.1%}, within 5 % in {memory['within_5_percent']} |\n"
        f"| TPOT one stream, TPOT batched, TTFT: dense | {n:,} public figures | median error "
        f"{', '.join(error(dense, f) for f in TOLD)} |\n"
        f"| the same: MoE | {m:,} public figures | median error "
        f"{', '.join(error(moe, f) for f in TOLD)} |\n"
        f"| models left out of the fit, of sources in it: dense | {unseen('seen', 'dense')}"
        f"| the same: MoE | {unseen('seen', 'moe')}"
        f"| sources left out of the fit: dense | {unseen('new', 'dense')}"
        f"| the same: MoE | {unseen('new', 'moe')}"
        f"| 90 % intervals, sources that fit and intervals had not seen | {held:,} figures | "
        f"{inside:.0%} inside |\n"
    )


def example() -> str:
    """A real plan."""
    asked = "plan Qwen/Qwen3-32B --on H100-SXM,L40S,c8g.4xlarge --rate 4"
    return shown(asked, "--isl 1000 --osl 300 --slo 'ttft:mean<2s; tpot:mean<50ms'")


def shown(asked: str, load: str = "") -> str:
    """A command as it is typed, and what it prints."""
    out = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out):
        main_of_cli(shlex.split(f"{asked} {load}"))
    shell = f"neoserve {asked}" + (f" \\\n    {load}" if load else "")
    return f"```\n$ {shell}\n\n{out.getvalue()}```\n"


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
            f"\n{document['decided_exact']} of the {document['decided']} cases that state the "
            f"bytes to fill are exact, and {document['chosen_afterwards']} more under an engine "
            "version that was chosen afterwards; what the others do not state is below. "
            f"Available KV memory from device and settings alone (n = {memory['n']}): median error "
            f"{memory['median']:.1%}, within 5 % in "
            f"{memory['within_5_percent']}.\n\n"
            "| not exact | basis | why |\n|---|---|---|\n"
        )
        for row in document["rows"]:
            if row["exact"] is not True:
                text += f"| {row['id']} | {row['basis']} | {row['note'] or 'see below'} |\n"
    return text


if __name__ == "__main__":
    sys.exit(main())
