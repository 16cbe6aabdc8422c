"""`neoserve verify` for every run folder under a path: `python scripts/verify_ledger.py PATH`

Exit code: the worst of all; 2 where there is no run folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from neoserve.errors import EXIT_BAD_ASK, EXIT_EVIDENCE_BROKEN, EXIT_MET
from neoserve.faces import cli


def main(words: list[str]) -> int:
    """The exit code."""
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__)
        return EXIT_MET if words in (["-h"], ["--help"]) else EXIT_BAD_ASK
    runs = run_folders(Path(words[0]))
    if not runs:
        print(f"verify_ledger.py: {words[0]} holds no run folder, which has a ledger.jsonl",
              file=sys.stderr)  # fmt: skip
        return EXIT_BAD_ASK
    codes = []
    for run in runs:
        codes.append(cli.main(["verify", str(run)]))
        if codes[-1] > EXIT_EVIDENCE_BROKEN:  # Ctrl-C
            return codes[-1]
    print(f"{codes.count(0)} of {len(codes)} run folders hold together")
    return max(codes)


def run_folders(path: Path) -> list[Path]:
    """Also those whose ledger is gone: a manifest and blobs are left of them."""
    return sorted(
        Path(folder)
        for folder, folders, files in os.walk(path)
        if "ledger.jsonl" in files or ("manifest.json" in files and "blobs" in folders)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
