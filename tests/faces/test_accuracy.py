"""`accuracy kv` and `accuracy oracle` as they are shown, and what rows may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neoserve.errors import AskError
from neoserve.faces.accuracy import Configs, _device, _profiles, report, run, show
from neoserve.predict.kv_truth import Case

from .conftest import LLAMA, Cli


def case(family: str, exact: bool | None, basis: str = "stated", **more: float) -> Case:
    return Case(
        id=family, family=family, observed={}, predicted={}, exact=exact, basis=basis, **more
    )


CASES = [
    case("dense", True, memory_error_share=0.01),
    case("dense", False, memory_error_share=-0.04),
    case("moe", True, "assumed", memory_error_share=0.09),
    case("moe", None, "unanswered"),
    case("moe", None, "end-to-end"),
]


def test_a_report_counts_by_hand() -> None:
    found = report("kv", Path("dir/truth.jsonl"), CASES)
    assert found["truth"] == "truth.jsonl"
    assert (found["cases"], found["answered"], found["exact"]) == (5, 4, 2)
    assert (found["decided"], found["decided_exact"]) == (2, 1)
    # errors of 1, 4 and 9 %
    assert found["memory_error"] == {"n": 3, "median": 0.04, "within_5_percent": 2}


def test_what_is_shown() -> None:
    text = show(report("kv", Path("t"), CASES))
    rows = [line.split() for line in text.splitlines()]
    assert ["dense", "2", "2", "1"] in rows
    assert ["moe", "3", "2", "1"] in rows
    assert "2 of 5 cases exact; of the 2 that state the bytes to fill, 1." in text
    assert "median error 4.0%, within 5 % in 2 of 3" in text
    assert "Available KV memory" not in show(report("oracle", Path("t"), CASES[-2:]))


def test_an_even_number_of_errors_has_its_median_between_them() -> None:
    two = report("kv", Path("t"), CASES[:2])["memory_error"]
    assert two["median"] == pytest.approx((0.01 + 0.04) / 2)


@pytest.mark.parametrize("what", ["kv", "oracle"])
def test_the_command_prints_what_it_counts(cli: Cli, truth: Path, what: str) -> None:
    name = {"kv": "kv_capacity.jsonl", "oracle": "kv_oracle.jsonl"}[what]
    rows = [line for line in (truth / name).read_text().splitlines() if line.strip()][:20]
    file = truth / f"few_{what}.jsonl"
    file.write_text("\n".join(rows))
    said = cli("accuracy", what, "--truth", str(file))
    assert (said.code, said.err) == (0, "")
    assert " of 20 cases exact" in said.out
    document = cli("accuracy", what, "--truth", str(file), "--json").document
    assert document["cases"] == 20
    assert document["kind"] == what


# rows


@pytest.mark.parametrize(
    ("row", "count"),
    [
        ({}, 3),  # may be any of three sets of rules
        ({"engine_version": "main"}, 3),
        ({"engine_version": "0.1.dev1+gabc"}, 3),
        ({"engine_version": "0.21.0rc1"}, 3),
        ({"engine_version": "0.21.0"}, 1),
        ({"engine": "sglang", "engine_version": "0.4"}, 1),
    ],
)
def test_a_printed_version_may_mean_several(row: dict[str, Any], count: int) -> None:
    found = _profiles(row)
    assert len(found) == count
    assert {p.engine for p in found} == {str(row.get("engine", "vllm"))}


@pytest.mark.parametrize(
    ("gpu", "wanted"),
    [
        ("H100", "H100-SXM-80GB"), ("NVIDIA H100", "H100-SXM-80GB"),
        ("NVIDIA GeForce RTX 4090 x2", "RTX-4090"), ("L4 (GCP)", "L4"), ("", None),
        ("Z9000", None),
    ],
)  # fmt: skip
def test_devices_as_logs_call_them(gpu: str, wanted: str | None) -> None:
    found = _device({"gpu": gpu})
    assert (found.id if found else None) == wanted


def test_configs_are_read_once_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    file = tmp_path / "b" / "mine.json"
    file.write_text(json.dumps(LLAMA))
    configs = Configs([tmp_path / "a", tmp_path / "b"])
    row = {"id": "1", "config_file": "elsewhere/mine.json", "model": "m"}
    first = configs.of(row)
    file.unlink()
    assert configs.of(row) is first
    assert (first.id, first.hidden_size) == ("m", 4096)


def test_a_model_that_cannot_be_read_is_refused_each_time() -> None:
    configs = Configs([])
    for _ in range(2):
        with pytest.raises(AskError, match="nobody/none"):
            configs.of({"id": "1", "model": "nobody/none"})


def test_no_truth_is_an_error(tmp_path: Path) -> None:
    for what in ("kv", "oracle", "latency"):
        with pytest.raises(AskError, match="No such file"):
            run(what, tmp_path / "none", [])
