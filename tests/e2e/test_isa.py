"""Shipped aarch64 binaries, and a program that runs: `make e2e-isa` downloads what these need.

The counts were found by another program (masks of its own, tested against objdump 2.40) on the same
files; ranges of them are read again here by capstone and by GNU objdump.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import capstone
import numpy as np
import pytest

from measure.isa.decoded import form_of
from neoserve.measure.isa.encodings import scan, tally
from neoserve.measure.isa.image import Image, read_image
from neoserve.measure.isa.look import look
from neoserve.measure.isa.target import map_file, parts
from neoserve.schema.isa import IsaBinary, IsaFunction, IsaReport

VARIABLE = "NEOSERVE_ISA_WHEELS"
WHEELS = Path(os.environ.get(VARIABLE, "."))
DATA = Path(__file__).parents[1] / "data" / "isa"
GCC, QEMU, OBJDUMP = "aarch64-linux-gnu-gcc", "qemu-aarch64", "aarch64-linux-gnu-objdump"

pytestmark = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"needs {VARIABLE}: make e2e-isa")


def wheel(pattern: str) -> Path:
    found = sorted(WHEELS.glob(pattern))
    if not found:
        pytest.skip(f"{WHEELS} has no {pattern}")
    return found[-1]


@functools.cache
def report(pattern: str, precision: str = "") -> IsaReport:
    return look("wheel", str(wheel(pattern)), precision=precision, note=lambda _: None)


def binary(pattern: str, ending: str) -> IsaBinary:
    (found,) = (b for b in report(pattern).binaries if b.name.endswith(ending))
    return found


def without(target: str) -> str:
    return f"{target} is not installed: make e2e-isa says how"
