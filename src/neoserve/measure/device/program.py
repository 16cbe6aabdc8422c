"""Times a device's operations, in the interpreter of an engine. It imports nothing of NeoServe.

    python program.py '{"shapes": [[576, 1536]], "rows": [1, 8], "threads": 1, "each_s": 0.05}'

A JSON line of progress at a time on stdout; the last one holds "rates". What torch can not do on
a device is told under "absent", with torch's own words.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 3
LONG_S = 0.5  # a call that takes longer is not repeated
GPU_READ_BYTES = 2 << 30
CPU_READ_BYTES = 256 << 20
LAUNCHES = 2000
REDUCED_BYTES = (1 << 14, 1 << 20, 1 << 26)
# What is multiplied, by torch's name.
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

Call = Callable[[], Any]


def main() -> None:
    ask = json.loads(sys.argv[1])
    try:
        rates = Torch(ask).rates()
    except ImportError:
        try:
            rates = numpy_rates(ask)
        except ImportError:
            rates = {
                "backend": "none",
                "absent": {"matrices": "this Python has neither torch nor numpy",
                           "launch_s": "this Python has no torch"},
            }  # fmt: skip
    print(json.dumps({"rates": rates}), flush=True)


def say(text: str) -> None:
    print(json.dumps({"progress": text}), flush=True)


def best_s(call: Call, each_s: float, wait: Call = lambda: None) -> float:
    """Seconds of a call: best of three rounds of as many as last `each_s`."""
    call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    once_s = max(time.perf_counter() - start, 1e-7)
    if once_s > LONG_S:
        return once_s
    num = max(1, min(10_000, int(each_s / once_s)))
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(num):
            call()
        wait()
        rounds.append((time.perf_counter() - start) / num)
    return min(rounds)


class Torch:
    """On its GPU where it has one, else on the CPU."""

    def __init__(self, ask: dict[str, Any]) -> None:
        import torch

        self.torch, self.ask = torch, ask
        self.device = "cuda" if torch.cuda.is_available() and ask.get("device") != "cpu" else "cpu"
        self.wait: Call = torch.cuda.synchronize if self.device == "cuda" else (lambda: None)
        if self.device == "cpu":
            torch.set_num_threads(ask["threads"])
        self.absent: dict[str, str] = {}

    def rates(self) -> dict[str, Any]:
        """All of them."""
        torch = self.torch
        on_gpu = self.device == "cuda"
        with torch.inference_mode():
            say("memory")
            read = self.read_bytes_per_s()
            matrices = [rate for name in self.dtypes() for rate in self.products(name)]
            say("launches")
            launch_s = self.launch_s()
            reductions = self.reductions()
        return {
            "backend": f"torch {torch.__version__}",
            "device": torch.cuda.get_device_name() if on_gpu else "",
            "num_devices": torch.cuda.device_count() if on_gpu else 1,
            "read_bytes_per_s": read,
            "matrices": matrices,
            "launch_s": launch_s,
            "collectives": reductions,
            "absent": self.absent,
        }

    def read_bytes_per_s(self) -> float | None:
        """A sum over memory far larger than any cache."""
        torch = self.torch
        size = GPU_READ_BYTES if self.device == "cuda" else CPU_READ_BYTES
        try:
            data = torch.ones(size // 4, dtype=torch.float32, device=self.device)
            return size / best_s(lambda: data.sum(), self.ask["each_s"], self.wait)
        except RuntimeError as error:
            self.absent["read"] = str(error).splitlines()[0]
            return None

    def dtypes(self) -> list[str]:
        """Those that it multiplies here."""
        names = [*DTYPES, "int8"]
        if self.device == "cuda" and self.torch.cuda.get_device_capability() >= (8, 9):
            names.append("fp8")
        return names

    def products(self, dtype: str) -> list[dict[str, Any]]:
        """Every number of rows by every shape."""
        found = []
        for inner, columns in self.ask["shapes"]:
            for rows in self.ask["rows"]:
                say(f"{dtype} {rows} x {inner} x {columns}")
                try:
                    call = self.product(dtype, rows, inner, columns)
                    seconds = best_s(call, self.ask["each_s"], self.wait)
                except (RuntimeError, NotImplementedError, ValueError) as error:
                    self.absent[f"{dtype}, {rows} rows"] = str(error).splitlines()[0][:200]
                    continue
                found.append({"dtype": dtype, "rows": rows, "inner": inner, "columns": columns,
                              "flops_per_s": 2.0 * rows * inner * columns / seconds})  # fmt: skip
        return found

    def product(self, dtype: str, rows: int, inner: int, columns: int) -> Call:
        """One layer's product with so many activations."""
        torch, device = self.torch, self.device
        if dtype == "int8":
            a = torch.ones((rows, inner), dtype=torch.int8, device=device)
            b = torch.ones((columns, inner), dtype=torch.int8, device=device).t()
            return lambda: torch._int_mm(a, b)
        if dtype == "fp8":
            kind = torch.float8_e4m3fn
            a = torch.ones((rows, inner), device=device).to(kind)
            b = torch.ones((columns, inner), device=device).to(kind).t()
            one = torch.ones((), device=device)
            return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one,
                                            out_dtype=torch.bfloat16)  # fmt: skip
        kind = getattr(torch, DTYPES[dtype])
        a = torch.randn((rows, inner), device=device).to(kind)
        b = torch.randn((columns, inner), device=device).to(kind)
        return lambda: torch.nn.functional.linear(a, b)

    def launch_s(self) -> float:
        """Host time from one small operation to the next."""
        one = self.torch.ones(1, device=self.device)
        self.wait()
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            one.add_(1.0)
        seconds = (time.perf_counter() - start) / LAUNCHES
        self.wait()
        return seconds

    def reductions(self) -> list[dict[str, Any]]:
        """All-reduces over all GPUs, by NCCL, from one process."""
        torch = self.torch
        num = torch.cuda.device_count() if self.device == "cuda" else 1
        found: list[dict[str, Any]] = []
        if num < 2:
            self.absent["collectives"] = "there is one device"
            return found
        for size in REDUCED_BYTES:
            say(f"all-reduce of {size} bytes over {num}")
            data = [torch.ones(size // 2, dtype=torch.float16, device=f"cuda:{i}")
                    for i in range(num)]  # fmt: skip
            try:
                call = functools.partial(torch.cuda.nccl.all_reduce, data)
                seconds = best_s(call, self.ask["each_s"], self._wait_all)
            except (RuntimeError, AttributeError) as error:
                self.absent["collectives"] = str(error).splitlines()[0][:200]
                return found
            found.append({"num_devices": num, "num_bytes": size, "seconds": seconds})
        return found

    def _wait_all(self) -> None:
        for index in range(self.torch.cuda.device_count()):
            self.torch.cuda.synchronize(index)


def numpy_rates(ask: dict[str, Any]) -> dict[str, Any]:
    """Products in fp32 by the BLAS that numpy carries."""
    import numpy as np

    found = []
    rng = np.random.default_rng(0)
    for inner, columns in ask["shapes"]:
        for rows in ask["rows"]:
            say(f"fp32 {rows} x {inner} x {columns}")
            a = rng.random((rows, inner), dtype=np.float32)
            b = rng.random((inner, columns), dtype=np.float32)
            out = np.empty((rows, columns), dtype=np.float32)
            seconds = best_s(functools.partial(np.matmul, a, b, out=out), ask["each_s"])
            found.append({"dtype": "fp32", "rows": rows, "inner": inner, "columns": columns,
                          "flops_per_s": 2.0 * rows * inner * columns / seconds})  # fmt: skip
    return {
        "backend": f"numpy {np.__version__}",
        "matrices": found,
        "absent": {"bf16, fp16, int8": "numpy multiplies fp32 alone at speed",
                   "launch_s": "this Python has no torch"},
    }  # fmt: skip


if __name__ == "__main__":
    main()
