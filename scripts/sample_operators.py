r"""Sample kernel times from AIConfigurator's operator tables into one small CSV.

    python scripts/sample_operators.py aiconfigurator_core-0.12.0-*.whl \
        --out tests/data/operators.csv

The wheel (Apache-2.0, PyPI) holds single kernels that NVIDIA measured inside vLLM, SGLang and
TensorRT-LLM. Of each table some shapes are drawn, evenly, from those that serving meets: products
of 1,024 to 16,384 on a side, experts without expert parallelism under balanced routing, attention
without a window. Needs pandas and pyarrow; deterministic. Its end-to-end cases are not read.
"""

from __future__ import annotations

import argparse
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

HARDWARE = {
    "a100_sxm": "A100-SXM-80GB", "h100_sxm": "H100-SXM-80GB", "h200_sxm": "H200-SXM-141GB",
    "b200_sxm": "B200-SXM-180GB", "b300_sxm": "B300-SXM-270GB", "gb200": "GB200-186GB",
    "gb300": "GB300-279GB", "l40s": "L40S",
    "rtx_pro_6000_server": "RTX-PRO-6000-Blackwell-Server",
}  # fmt: skip
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}
COLUMNS = ("op", "hardware", "engine", "version", "dtype", "m", "n", "k", "experts", "chosen",
           "heads", "kv_heads", "head_dim", "ranks", "latency_us")  # fmt: skip
_TABLE = re.compile(r"/data/([^/]+)/[^/]+/(vllm|sglang|trtllm)/([^/]+)/(\w+)_perf\.parquet$")
Frame = Any


def _gemm(d: Frame) -> Frame:
    """m rows by an n x k matrix. Below 20 us a launch is most of it; vLLM's block-scaled products
    were timed with 70 to 220 us of host time each."""
    d = d[d.n.between(1024, 16384) & d.k.between(1024, 16384) & (d.m <= 32768)]
    hosted = (d.framework == "VLLM") & (d.gemm_dtype == "fp8_block")
    return d[d.latency >= hosted * 0.98 + 0.02].assign(dtype=d.gemm_dtype)


def _moe(d: Frame) -> Frame:
    """m tokens; n: width of one expert on this rank; k: hidden size."""
    d = d[(d.distribution == "balanced") & (d.moe_ep_size == 1) & (d.num_experts >= 32)]
    d = d[~d.kernel_source.str.contains("nongated")]  # two matrices, not three
    d = d.assign(
        dtype=d.moe_dtype, m=d.num_tokens, n=d.inter_size // d.moe_tp_size, k=d.hidden_size,
        experts=d.num_experts, chosen=d.topk,
    )  # fmt: skip
    return d[d.n >= 128]


def _prompt(d: Frame) -> Frame:
    """m prompts of n tokens each, causal."""
    d = d[(d.step == 0) & (d.isl >= 1024) & _plain(d) & (d.latency >= 0.05)]
    return _heads(d, d.batch_size, d.isl)


def _decode(d: Frame) -> Frame:
    """m requests, each with n tokens of context."""
    d = d[(d.step >= 1023) & (d.batch_size <= 512) & _plain(d) & (d.latency >= 0.03)]
    return _heads(d, d.batch_size, d.step)


def _plain(d: Frame) -> Frame:
    window = d.window_size if "window_size" in d else 0
    return (window == 0) & d.head_dim.isin((64, 128)) & (d.num_heads >= 4)


def _heads(d: Frame, m: Frame, n: Frame) -> Frame:
    return d.assign(
        dtype=d.kv_cache_dtype, m=m, n=n, heads=d.num_heads, kv_heads=d.num_key_value_heads
    )


def _reduce(d: Frame) -> Frame:
    """n: bytes of the message. The tables count its elements: at 512 M of them eight H200 reach
    235 GB/s in bytes a unit, and 460 in two, as NCCL does."""
    if "backend" in d:  # replayed from a graph, as a decoding step is
        d = d[~d.backend.astype(str).str.contains("eager")]
    d = d[d.message_size.between(1024, 2**28)]
    return d.assign(dtype=d.allreduce_dtype, n=2 * d.message_size, ranks=d.num_gpus)


KINDS: dict[str, tuple[str, Callable[[Frame], Frame], int]] = {
    "gemm": ("gemm", _gemm, 16),
    "moe": ("moe", _moe, 20),
    "context_attention": ("prompt", _prompt, 12),
    "generation_attention": ("decode", _decode, 12),
    "custom_allreduce": ("reduce", _reduce, 12),
}


def sampled(wheel: Path) -> Frame:
    """Every table's draw, one below the other."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            match = _TABLE.search(name)
            if not match or match[1] not in HARDWARE or match[4] not in KINDS:
                continue
            op, chosen, keep = KINDS[match[4]]
            rows = chosen(pd.read_parquet(io.BytesIO(archive.read(name))))
            rows = rows.assign(
                op=op, hardware=HARDWARE[match[1]], engine=ENGINES[match[2]], version=match[3],
                latency_us=(rows.latency * 1e3).round(2),
            )  # fmt: skip
            for _, group in rows.groupby("dtype", sort=True):
                found.append(group.sample(min(keep, len(group)), random_state=0))
    return pd.concat(found).reindex(columns=list(COLUMNS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = sampled(args.wheel)
    integers = ["m", "n", "k", "experts", "chosen", "heads", "kv_heads", "head_dim", "ranks"]
    rows[integers] = rows[integers].astype("Int64")
    rows.to_csv(args.out, index=False, lineterminator="\n")
    print(rows.groupby(["op", "engine", "dtype"]).size().to_string())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
