"""`neoserve isa PATH`: which instructions a kernel was compiled to.

`python scripts/verify_kernel_isa.py PATH`. Exit code: the command's; 4 where this version has none.
"""

from __future__ import annotations

import sys

from neoserve import __version__
from neoserve.errors import EXIT_BAD_ASK, EXIT_ENGINE_FAILED, EXIT_MET
from neoserve.faces import cli


def main(words: list[str]) -> int:
    """The exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return EXIT_MET if words else EXIT_BAD_ASK
    if not any(command.name == "isa" for command in cli.COMMANDS):
        print(f"verify_kernel_isa.py: NeoServe {__version__} has no `isa` command; nothing of "
              f"{words[0]} was checked", file=sys.stderr)  # fmt: skip
        return EXIT_ENGINE_FAILED
    return cli.main(["isa", *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
