"""Speed of `neoserve isa`, as ratios in one run. `make bench-isa`.

whole      the command on a whole library: seconds and largest memory of its process
named      the same, only the named kernels
rivals     a range of the library's code, by our scan and by capstone: the same counts, and the
           ratio of the times; `times_faster_whole` sets the whole command, with reading, digest,
           symbols and loops, against capstone's rate on that range; the same range by GNU objdump,
           where it is installed

Ratios are of seconds of the processor, so that a busy machine changes little.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import capstone
import numpy as np

from neoserve.measure.isa.encodings import ENCODINGS, scan, tally
from neoserve.measure.isa.image import Image, Section, read_image
from neoserve.measure.isa.target import map_file, parts

ROOT = Path(__file__).resolve().parent.parent
WHEELS = Path(os.environ.get("NEOSERVE_ISA_WHEELS", ROOT / ".wheels-arm"))
RUNS = 3
MATRIX = ("smmla", "ummla", "usmmla", "bfmmla", "sdot", "udot", "usdot", "bfdot")


def command(*words: str) -> dict[str, float]:
    """Median seconds of the process, and of its processors; its largest resident memory."""
    seconds, cpu, memory = [], [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-m", "neoserve", "isa", *words, "--json"],
                                 stdout=subprocess.DEVNULL)  # fmt: skip
        _, status, usage = os.wait4(child.pid, 0)
        seconds.append(time.perf_counter() - start)
        cpu.append(usage.ru_utime + usage.ru_stime)
        memory.append(usage.ru_maxrss * 1024)
        assert status == 0
    return {"seconds": statistics.median(seconds), "cpu_s": statistics.median(cpu),
            "memory_bytes": max(memory)}  # fmt: skip


def middle(image: Image, num_words: int) -> tuple[Section, int, int]:
    """The range of the largest section that holds most of what is looked for."""
    section = max(image.sections, key=lambda s: s.size)
    words = np.frombuffer(image.data, "<u4", section.size // 4, section.offset)
    num_words = min(num_words, len(words))
    hits = scan(words)
    place = hits.place[np.array([encoding.macs > 0 for encoding in ENCODINGS])[hits.form]]
    counts = np.searchsorted(place, place + num_words) - np.arange(len(place))
    start = int(min(place[counts.argmax()] if len(place) else 0, len(words) - num_words))
    return section, start, start + num_words


def rivals(path: Path, num_words: int) -> dict[str, object]:
    """Ours, capstone and objdump on the same words."""
    image = read_image(str(path), map_file(path))
    section, start, end = middle(image, num_words)
    words = np.frombuffer(image.data, "<u4", end - start, section.offset + 4 * start)
    address = section.address + 4 * start
    begun = time.process_time()
    ours = tally(scan(words).form)
    ours_s = time.process_time() - begun
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    decoder.skipdata = True
    begun = time.process_time()
    decoded = decoder.disasm_lite(words.tobytes(), address)
    theirs = Counter(mnemonic for _, _, mnemonic, _ in decoded)
    capstone_s = time.process_time() - begun
    mine = Counter[str]()
    for form, count in ours.items():
        mine[form.partition(".")[0]] += count
    agree = {name: (mine[name], theirs[name]) for name in MATRIX if mine[name] or theirs[name]}
    found: dict[str, object] = {
        "words": len(words), "ours_s": ours_s, "capstone_s": capstone_s,
        "times_faster_scan": capstone_s / ours_s, "ours_and_capstone": agree,
        "capstone_words_per_s": len(words) / capstone_s,
    }  # fmt: skip
    if program := shutil.which("aarch64-linux-gnu-objdump"):
        child = subprocess.Popen([program, "-d", f"--start-address={address}",
                                  f"--stop-address={address + 4 * len(words)}", path],
                                 stdout=subprocess.DEVNULL)  # fmt: skip
        _, _, usage = os.wait4(child.pid, 0)
        found["objdump_s"] = usage.ru_utime + usage.ru_stime
    return found


def unpacked(folder: Path) -> Path:
    """libtorch_cpu.so of the largest torch wheel, where the tests unpack it, too."""
    wheels = sorted(folder.glob("torch-*.whl"), key=lambda path: path.stat().st_size)
    if not wheels:
        sys.exit(f"no torch wheel for aarch64 in {folder}: make e2e-isa downloads it")
    target = folder / "unpacked" / f"{wheels[-1].name.split('-cp')[0]}-libtorch_cpu.so"
    target.parent.mkdir(exist_ok=True)
    if not target.exists():
        for part in parts("wheel", str(wheels[-1])):
            if part.name.endswith("libtorch_cpu.so") and part.data is not None:
                target.write_bytes(part.data)
    return target


def main() -> None:
    """Print all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", type=Path)
    parser.add_argument("--words", type=int, default=2_000_000, help="that the rivals read")
    args = parser.parse_args()
    path = args.library or unpacked(WHEELS)
    image = read_image(str(path), map_file(path))
    num_words = sum(section.size for section in image.sections) // 4
    whole, named = command(str(path)), command(str(path), "--kernels")
    found = rivals(path, args.words)
    rate = found["capstone_words_per_s"]
    assert isinstance(rate, float)
    found["times_faster_whole"] = num_words / rate / whole["cpu_s"]
    print(json.dumps({"library": path.name, "words": num_words, "whole": whole, "named": named,
                      "rivals": found}, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
