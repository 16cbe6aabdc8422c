"""Line and branch coverage against its floors: 100 % where arithmetic and evidence live."""

from __future__ import annotations

import subprocess
import sys

FLOORS = {"src/neoserve/predict/*": 100, "src/neoserve/stats/*": 100,
          "src/neoserve/evidence/*": 100, "src/neoserve/*": 95}  # fmt: skip


def main() -> int:
    """0 if every floor holds."""
    tool = [sys.executable, "-m", "coverage"]
    subprocess.run([*tool, "combine", "--quiet"], check=False, stderr=subprocess.DEVNULL)
    failed = 0
    for pattern, floor in FLOORS.items():
        command = [*tool, "report", f"--include={pattern}", f"--fail-under={floor}"]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        total = result.stdout.strip().splitlines()[-1] if result.stdout else result.stderr
        print(f"{pattern:28} floor {floor} %  {total.split()[-1]}")
        if result.returncode:
            failed = 1
            print(result.stdout)
    return failed


if __name__ == "__main__":
    sys.exit(main())
