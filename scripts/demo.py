"""The demo by the commands that a user would type: `python scripts/demo.py [--all] [words of demo]`

--all   plan a model on three machines first; afterwards verify the run and list its recipe

Exit code: the demo's; that of the first command that could not be carried out, if there is one.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from neoserve.errors import EXIT_INCONCLUSIVE, EXIT_NOT_MET, Error
from neoserve.faces import cli
from neoserve.faces.bench import fresh_folder

PLAN = (
    "plan Qwen/Qwen3-8B --on L4,L40S,c8g.4xlarge --max-concurrency 16 --isl 1000 --osl 300 "
    "--slo 'ttft:mean<5s; tpot:mean<150ms'"
)
OUT = "runs/demo"
ANSWERS = (0, EXIT_NOT_MET, EXIT_INCONCLUSIVE)  # a verdict that nobody likes is one, too


def main(words: list[str]) -> int:
    """The exit code."""
    if "--all" not in words:
        return command("demo", *words)
    words = [word for word in words if word != "--all"]
    asked, words = out_of(words)
    try:
        out = str(fresh_folder(Path(asked)))
    except Error as error:
        print(f"demo.py: {error}", file=sys.stderr)
        return error.exit_code
    found = 0
    for said in (shlex.split(PLAN), ["demo", *words, "--out", out], ["verify", out],
                 ["recipe", out, "--out", f"{out}/recipe"]):  # fmt: skip
        code = command(*said)
        if code not in ANSWERS:
            return code
        if said[0] == "demo":
            found = code
    return found


def out_of(words: list[str]) -> tuple[str, list[str]]:
    """The folder of ``--out``, and the other words."""
    for i, word in enumerate(words):
        if word.startswith("--out="):
            return word.removeprefix("--out="), words[:i] + words[i + 1 :]
        if word == "--out" and i + 1 < len(words):
            return words[i + 1], words[:i] + words[i + 2 :]
    return OUT, words


def command(*words: str) -> int:
    """One command, shown as it would be typed."""
    print(f"$ neoserve {shlex.join(words)}", file=sys.stderr, flush=True)
    return cli.main(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
