"""Single rows of a truth file that leave something open."""

from __future__ import annotations

import pytest

from neoserve.catalog.engines import find_profile
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.predict.kv_truth import Case, by_family, deployment_of, log_case, oracle_case

GIB = 2**30
H100 = find_machine("H100-SXM").hardware
LLAMA = find_model("meta-llama/Llama-3.1-8B", online=False)  # 131,072 B a token
VLLM, SGLANG = find_profile("vllm"), find_profile("sglang")
ROW = {"id": "row", "family": "dense", "max_model_len": 8192, "tensor_parallel": 1}


def logged(row: dict, profile=VLLM, hardware=H100) -> Case:
    return log_case({**ROW, **row}, LLAMA, [profile], hardware, H100)


def test_a_row_that_states_its_bytes_is_decided_by_them() -> None:
    # 20 GiB are 163,840 tokens and twenty requests of 8,192
    told = {"available_kv_gib": 20.0, "kv_tokens": 163840, "max_concurrency": {"x": 20.0}}
    assert logged(told).exact is True
    assert logged({**told, "kv_tokens": 170000}).exact is False
    assert logged({**told, "max_concurrency": {"x": 20.5}}).exact is False
    assert logged({"available_kv_gib": 20.0}).exact is None  # nothing was printed


def test_a_row_that_cannot_be_computed_is_unanswered_with_the_reason() -> None:
    case = logged({"requested_block_size": 24, "available_kv_gib": 20.0, "kv_tokens": 163840})
    assert (case.basis, case.exact) == ("unanswered", None)
    assert "block_size 24 is no multiple" in case.note


def test_printed_pools_decide_sglangs_rows() -> None:
    # "KV Cache is allocated. #tokens: 163840, K size: 10.00 GB, V size: 10.00 GB"
    pools = {"sglang": {"k_size_gb": 10.0, "v_size_gb": 10.0}, "kv_tokens": 163840}
    assert logged(pools, SGLANG).exact is True
    assert logged({**pools, "kv_tokens": 170000}, SGLANG).exact is False
    silent = logged({"sglang": {"mem_fraction_static": 0.9}, "kv_tokens": 163840}, SGLANG)
    assert (silent.basis, silent.exact, silent.predicted) == ("end-to-end", None, {})
    assert silent.note == "no pool size is printed"


def test_the_memory_error_is_relative_to_what_was_available() -> None:
    row = {"available_kv_gib": 50.0, "gpu_memory_utilization": 0.9, "gpu_mem_reported_gib": 80.0}
    case = logged(row)
    assert case.memory_error_share is not None
    more = logged({**row, "gpu_mem_reported_gib": 90.0}).memory_error_share
    # ten GiB more of which 0.9 are used, of 50
    assert more == pytest.approx(case.memory_error_share + 9.0 / 50.0, abs=1e-6)
    assert logged(row, hardware=None).memory_error_share is None


def test_a_row_without_a_length_serves_what_its_concurrency_line_counts() -> None:
    row = {"max_concurrency": {"x": 20.0, "tokens_per_request": 4096}}
    assert deployment_of(row, VLLM, hybrid=False).max_model_len == 4096
    assert deployment_of({"max_concurrency": 20.0}, VLLM, hybrid=False).max_model_len is None


def test_an_oracle_row_is_refused_where_the_engine_refuses() -> None:
    row = {**ROW, "tensor_parallel": 3, "available_bytes": 20 * GIB}
    assert oracle_case({**row, "error": "heads"}, LLAMA, VLLM, H100).exact is True
    assert oracle_case(row, LLAMA, VLLM, H100).exact is False
    short = {**ROW, "available_bytes": GIB // 2}  # a request of 8,192 tokens needs 1 GiB
    assert oracle_case({**short, "error": "too short"}, LLAMA, VLLM, H100).exact is True
    assert oracle_case({**short, "num_blocks": 256}, LLAMA, VLLM, H100).exact is False


def test_families_are_counted() -> None:
    def case(family: str, exact: bool | None, basis: str = "stated") -> Case:
        return Case(id="", family=family, observed={}, predicted={}, exact=exact, basis=basis)

    table = by_family(
        [case("a", True), case("a", False), case("a", None), case("b", None, "end-to-end")]
    )
    assert table == {
        "a": {"cases": 3, "answered": 2, "exact": 1},
        "b": {"cases": 1, "answered": 1, "exact": 0},
    }
