"""Reports of perf: recorded on Graviton4 and on a machine without counters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.dispatch import mapped_libraries, parse_report, record

DATA = Path(__file__).parents[2] / "data" / "dispatch"
KAI = "kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4c32p4x8_16x4x32_neon_i8mm"


def read(name):
    found = parse_report((DATA / name).read_text())
    return found, {symbol.name: symbol for symbol in found.symbols}


def test_kleidiai_on_graviton4():
    """The kernel's own share is nil: its labels are symbols. What it calls is its share."""
    found, by = read("perf-graviton4-enabled.txt")
    assert (found.event, found.num) == ("cycles:P", "31K")
    assert (by[KAI].total_share, by[KAI].self_share) == pytest.approx((0.6868, 0.0001))
    assert by[KAI].library == "libonnxruntime.so.1.29.0"
    labels = by["label_opt_3"].self_share + by["label_opt_17"].self_share
    assert labels == pytest.approx(0.5998 + 0.0834)
    assert by["kai_run_lhs_quant_pack_qai8dxp_f32"].total_share == pytest.approx(0.0057)
    shares = [symbol.total_share for symbol in found.symbols]
    assert shares == sorted(shares, reverse=True)


def test_kleidiai_turned_off():
    _, by = read("perf-graviton4-disabled.txt")
    assert not [name for name in by if name.startswith("kai_run_matmul")]
    assert any("SQ4BitGemmKernel_CompInt8" in name for name in by)


def test_vllm_in_bfloat16_without_avx512():
    """oneDNN has no bfloat16 product for AVX2, so that torch's own runs."""
    found, by = read("perf-vllm-bf16-avx2.txt")
    assert (found.event, found.num) == ("cpu-clock:ppp", "841")
    top = found.symbols[0]
    assert (top.name, top.library) == (
        "at::native::AVX2::bf16_dot_with_fp32_arith",
        "libtorch_cpu.so",
    )
    assert (top.self_share, top.total_share) == (pytest.approx(0.6254), None)
    assert by["__schedule"].library == "[kernel.kallsyms]"


def test_kernels_made_at_run_time_are_one_row():
    found, by = read("perf-vllm-f32-jit.txt")
    assert found.symbols[0] == by["(made at run time)"]
    assert by["(made at run time)"].library == "JIT"
    # by another way: the rows of the file that name no library
    rows = [line.split("%")[0] for line in (DATA / "perf-vllm-f32-jit.txt").read_text().splitlines()
            if "[JIT]" in line]  # fmt: skip
    assert by["(made at run time)"].self_share == pytest.approx(sum(map(float, rows)) / 100)


@pytest.mark.parametrize("text", ["", "# Samples: 3  of event 'cycles'\n", "hello\n"])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(AskError, match="no report of perf"):
        parse_report(text)


BUSY = "import time\nuntil = time.time() + 30\nwhile time.time() < until: sum(range(1000))"


def test_a_busy_process_is_sampled_or_the_reason_is_said():
    """perf may be missing, or not allowed; then a sentence says so."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        try:
            time.sleep(0.2)
            found = record((process.pid,), 1.0)
        finally:
            process.kill()
    if isinstance(found, str):
        assert found.startswith("no samples: ")
        assert "\n" not in found
    else:
        assert found.event
        assert sum(symbol.self_share for symbol in found.symbols) == pytest.approx(1, abs=0.1)


def test_without_perf_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install linux-perf" in record((os.getpid(),), 0.1)


def test_a_perf_that_may_not_watch(monkeypatch, tmp_path):
    """What perf said to a user who asked for another user's process."""
    fake = tmp_path / "perf"
    fake.write_text(f"#!/bin/sh\ncat {DATA / 'perf-not-allowed.txt'} >&2\nexit 255\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert record((os.getpid(),), 0.1) == (
        "no samples: perf record: Access to performance monitoring and observability operations "
        "is limited. (perf_event_paranoid is 2)"
    )


def test_mapped_libraries_have_their_digests():
    with subprocess.Popen(
        [sys.executable, "-c", "import ssl, sys; print(1, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.readline()
        found = {Path(one.path).name: one for one in mapped_libraries((process.pid,))}
        process.stdin.close()
    crypto = next(one for name, one in found.items() if name.startswith("libcrypto"))
    said = subprocess.run(["sha256sum", crypto.path], capture_output=True, text=True, check=True)
    assert crypto.sha256 == said.stdout.split()[0]
    assert crypto.size_bytes == os.path.getsize(crypto.path)
    assert crypto.pids == (process.pid,)
    assert mapped_libraries((process.pid,)) == ()  # it has ended
