"""The documentation's generated blocks are what the code says today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_generated_blocks_are_current() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_readme_counts_what_the_catalog_holds() -> None:
    from neoserve.catalog.hardware import all_hardware, all_instances
    from neoserve.catalog.models import bundled_names

    text = (ROOT / "README.md").read_text()
    assert f"{len(all_hardware())} devices" in text
    assert f"{len(all_instances())} instances" in text
    assert f"{len(bundled_names())} models" in text
