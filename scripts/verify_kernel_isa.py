"""`neoserve isa TARGET`: which matrix instructions a binary holds, and its kernels by precision.

`python scripts/verify_kernel_isa.py [--binary] TARGET [--precision w4a8|w8a8|bf16] [--json]`.
Exit code: the command's; 1 where a precision was asked for and is not there.
"""

from __future__ import annotations

import sys

from neoserve.errors import EXIT_BAD_ASK, EXIT_MET
from neoserve.faces import cli


def main(words: list[str]) -> int:
    """The exit code. `--binary TARGET` is the way that an earlier tool asked."""
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return EXIT_MET if words else EXIT_BAD_ASK
    return cli.main(["isa", *(word for word in words if word != "--binary")])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
