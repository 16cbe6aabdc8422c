"""DeviceRates: what a device does in a second, measured by a child program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import EngineFailed
from ...schema.model import ModelSpec
from ...schema.profile import CollectiveRate, DeviceRates, MatrixRate, ReadRate
from ..host import host_print
from ..machine import read_bandwidth_bytes_per_s

Say = Callable[[str], None]

ROWS = (1, 8, 64, 512)  # of a step: one request, a few, many, a prompt
USUAL_SHAPES = ((4096, 4096), (4096, 14336))  # of an 8B model's layers
_EACH_S = 0.05
_LIMIT_S = 600.0
_PROGRAM = Path(__file__).with_name("program.py")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def device_rates(
    threads: int, *, python: str = "", model: ModelSpec | None = None, device: str = "cpu",
    say: Say = lambda _: None,
) -> DeviceRates:
    """Half a minute or less for a CPU. `python` is one that has torch or numpy, "" for this one.

    Raises EngineFailed where the program does not end as it should.
    """  # fmt: skip
    read = [] if device == "gpu" else cpu_read(threads, say)
    told = _run(python or sys.executable, threads, shapes_of(model), device, say)
    on_gpu = bool(told.get("device"))
    absent = dict(told.get("absent", {}))
    if device == "gpu" and not on_gpu:
        absent["gpu"] = f"{told['backend']} finds no GPU"
    if on_gpu and told.get("read_bytes_per_s"):
        read = [ReadRate(1, told["read_bytes_per_s"])]
    return DeviceRates(
        device=told.get("device") or host_print().cpu_model,
        backend=told["backend"],
        num_threads=threads,
        read=tuple(read),
        matrices=tuple(MatrixRate(**rate) for rate in told.get("matrices", ())),
        launch_s=told.get("launch_s"),
        collectives=tuple(CollectiveRate(**rate) for rate in told.get("collectives", ())),
        absent=absent,
    )


def cpu_read(threads: int, say: Say = lambda _: None) -> list[ReadRate]:
    """By one thread, two, four ... up to all."""
    found = []
    for num in thread_counts(threads):
        say(f"memory, {num} threads" if num > 1 else "memory, 1 thread")
        found.append(ReadRate(num, read_bandwidth_bytes_per_s(num)))
    return found


def thread_counts(threads: int) -> list[int]:
    """Powers of two up to `threads`, and itself."""
    counts = [1 << i for i in range(threads.bit_length()) if 1 << i < threads]
    return [*counts, max(1, threads)]


def shapes_of(model: ModelSpec | None) -> tuple[tuple[int, int], ...]:
    """(inner, columns) of a layer's usual products: square, and into the feed-forward."""
    if model is None:
        return USUAL_SHAPES
    hidden = model.hidden_size
    # gate, up and down are three matrices of hidden x width
    widths = [layer.ffn.dense_params // (3 * hidden) for layer in model.layers]
    width = next((w for w in widths if w > 0), 4 * hidden)
    return (hidden, hidden), (hidden, width)


def _run(
    python: str, threads: int, shapes: Sequence[Sequence[int]], device: str, say: Say
) -> dict[str, Any]:
    ask = {"shapes": shapes, "rows": ROWS, "threads": threads, "each_s": _EACH_S, "device": device}
    env = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(threads))
    try:
        child = subprocess.Popen(
            [python, "-I", str(_PROGRAM), json.dumps(ask)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
    except OSError as error:
        raise EngineFailed(f"{python} does not start: {error.strerror}") from None
    try:
        rates = _read(child, say)
        _, complaint = child.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise EngineFailed(f"{python} did not end within {_LIMIT_S:g} s") from None
    finally:
        child.kill()
        child.wait()
    if rates is None:
        words = complaint.strip().splitlines()[-1:] or ["nothing"]
        raise EngineFailed(f"{python} measured nothing of the device; it said: {words[0]}")
    return rates


def _read(child: subprocess.Popen[str], say: Say) -> dict[str, Any] | None:
    assert child.stdout is not None
    for line in child.stdout:
        try:
            told = json.loads(line)
        except ValueError:  # a library's own words
            continue
        if "rates" in told:
            return dict(told["rates"])
        say(str(told.get("progress", "")))
    return None
