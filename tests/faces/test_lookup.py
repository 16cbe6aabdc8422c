"""Lists of hardware and models: what is in them is what the catalog's files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from neoserve.catalog.hardware import all_hardware, all_instances
from neoserve.errors import AskError, CatalogMiss
from neoserve.faces.lookup import list_hardware, list_models
from neoserve.faces.published import published


def test_every_device_is_listed_with_its_facts() -> None:
    found = list_hardware()
    raw = {entry["id"]: entry for entry in all_hardware()}
    assert {facts.id for facts in found.hardware} == set(raw) == set(found.ids)
    for facts in found.hardware:
        entry = raw[facts.id]
        assert facts.bandwidth_bytes_per_s == (entry.get("bandwidth_bytes_per_s") or 0.0)
        assert facts.peak_flops_per_s == (entry.get("peak_flops_per_s") or {})
        assert set(facts.sources) == set(entry.get("sources", {}))


def test_the_price_is_the_lowest_of_a_device() -> None:
    [l40s] = list_hardware("L40S", limit=1).hardware
    prices = [
        (price.usd_per_hour / i.num_devices, price.usd_per_hour, i.num_devices)
        for i in all_instances() if i.hardware == "L40S"
        for price in i.prices if price.kind == "on-demand"
    ]  # fmt: skip
    _, usd, devices = min(prices)
    assert (l40s.usd_per_hour, l40s.priced_devices) == (usd, devices)
    assert l40s.price_basis.startswith("published, ")


@pytest.mark.parametrize(
    ("name", "first"), [("l4", "L4"), ("c8g.4xlarge", "graviton4"), ("NVIDIA L40S", "L40S")]
)
def test_a_name_finds_its_device_first(name: str, first: str) -> None:
    assert list_hardware(name).hardware[0].id == first


def test_kinds_and_limits() -> None:
    found = list_hardware(kind="cpu", limit=3)
    assert [facts.kind for facts in found.hardware] == ["cpu"] * 3
    assert found.num_matching == len(found.ids) > 3
    with pytest.raises(CatalogMiss, match="L40"):
        list_hardware("L40Z")
    with pytest.raises(AskError, match="limit is 0"):
        list_hardware(limit=0)
    with pytest.raises(AskError, match="H100-SXM-80GB is no cpu"):
        list_hardware("H100-SXM-80GB", kind="cpu")


def test_models_are_told_apart_by_what_their_layers_keep() -> None:
    kinds = {
        "Qwen/Qwen3-8B": "dense",
        "Qwen/Qwen3-30B-A3B": "moe",
        "Qwen/Qwen3-Next-80B-A3B-Instruct": "hybrid",
    }
    for name, kind in kinds.items():
        [facts] = [f for f in list_models(name).models if f.id == name]
        assert facts.kind == kind
    qwen = list_models("qwen3-8b", limit=1).models[0]
    assert qwen.num_params == 8_190_735_360  # the checkpoint's own count
    with pytest.raises(CatalogMiss, match="Qwen3-8B"):
        list_models("Qwen/Qwen3-9B")


def test_published_points_are_rows_of_the_sources() -> None:
    import csv
    import gzip

    rows = Path(__file__).parents[1] / "data" / "latency_rows.csv.gz"
    with gzip.open(rows, "rt") as file:
        by_id = {row["id"]: row for row in csv.DictReader(file)}
    found = published(limit=10**6)
    assert len(found.points) == found.num_matching > 1000
    for point in found.points:
        row = by_id[point.id]
        assert point.licence == row["licence"] != ""
        assert point.output_tokens_per_s == float(row["output_tok_s_total"])
        for value, text in ((point.ttft_s, row["ttft_ms"]), (point.tpot_s, row["tpot_ms"])):
            assert (value is None) == (text == "")
            assert value is None or value == pytest.approx(float(text) / 1e3)


def test_published_points_are_filtered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    some = published("qwen", "H200", limit=5)
    assert some.points
    assert all("H200" in p.hardware and "qwen" in p.model.lower() for p in some.points)
    with pytest.raises(AskError, match="limit is 0"):
        published(limit=0)
    from neoserve.faces import published as module

    monkeypatch.setattr(module, "DATA", tmp_path)
    module._points.cache_clear()
    none = published()
    assert (none.points, none.num_matching) == ((), 0)
    assert "no public measurements" in none.reason
    module._points.cache_clear()
