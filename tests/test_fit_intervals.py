"""scripts/fit_intervals.py: conformal intervals on data whose law is known."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))
conformal = importlib.import_module("conformal")
fit_intervals = importlib.import_module("fit_intervals")
sys.path.remove(str(SCRIPTS))

LEVELS = (0.5, 0.8, 0.9, 0.95)
STYLE = conformal.Style({"class": 0.35})


def law(
    seed: int, sources: int, bench_deviation: float, ratio: float = 3.0, skew: bool = False
) -> Any:
    """Benches of 3 to 120 rows; those of class "wide" spread `ratio` times as far."""
    rng = np.random.default_rng(seed)
    residual, cluster, kind = [], [], []
    for source in range(sources):
        n = int(rng.integers(3, 120))
        wide = rng.random(n) < 0.5
        noise = rng.exponential(1.0, n) if skew else rng.standard_normal(n)
        scale = np.where(wide, ratio, 1.0) * 0.1
        residual.append(scale * (noise + bench_deviation * rng.standard_normal()))
        cluster += [source] * n
        kind += ["wide" if w else "narrow" for w in wide]
    return conformal.Rows(
        np.concatenate(residual), np.array(cluster), {"class": np.array(kind, dtype=str)},
        np.ones(len(cluster), bool),
    )  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("deviation", "skew"), [(0.0, False), (1.0, False), (0.5, True)])
def test_benches_from_the_same_law_are_covered(seed: int, deviation: float, skew: bool) -> None:
    fitted = conformal.fit(law(seed, 60, deviation, skew=skew), LEVELS, STYLE)
    fresh = law(100 + seed, 400, deviation, skew=skew)
    for level in LEVELS:
        # 60 benches with an error of their own leave about 2 % of luck
        assert fitted.covers(fresh, level).mean() == pytest.approx(level, abs=0.05)


def test_each_group_is_covered_and_only_as_wide_as_it_spreads() -> None:
    fitted, fresh = conformal.fit(law(5, 60, 0.3), LEVELS, STYLE), law(6, 400, 0.3)
    for kind in ("wide", "narrow"):
        inside = fitted.covers(fresh.of(fresh.groups["class"] == kind), 0.9)
        assert inside.mean() == pytest.approx(0.9, abs=0.04)
    effects = fitted.scale.effects["class"]
    assert math.exp(effects["wide"] - effects["narrow"]) == pytest.approx(3.0, rel=0.15)


def test_left_out_benches_are_covered_on_average() -> None:
    rows = law(7, 40, 0.5)
    covered, width = conformal.left_out(rows, LEVELS, STYLE, folds=10)
    assert covered[0.9].mean() == pytest.approx(0.9, abs=0.03)
    assert (width[0.5] <= width[0.8]).all()
    assert (width[0.8] <= width[0.9]).all()
    assert (width[0.9] <= width[0.95]).all()


def test_a_skewed_law_gets_bounds_that_are_not_symmetric() -> None:
    fitted = conformal.fit(law(8, 60, 0.0, skew=True), LEVELS, STYLE)
    low, high = fitted.bounds(law(9, 3, 0.0, skew=True), 0.9)
    assert (low == 0.0).all()  # the law gives nothing below, and the prediction stays inside
    assert (high > 0.1).all()


def thin(extra_sources: int) -> Any:
    """40 benches that agree, and some in a class of their own that spread four times as far."""
    rng = np.random.default_rng(11)
    sizes = [50] * 40 + [30] * extra_sources
    scale = [0.1] * 40 + [0.4] * extra_sources
    residual = [s * rng.standard_normal(n) for n, s in zip(sizes, scale, strict=True)]
    keys = ["common"] * 2000 + ["rare"] * 30 * extra_sources
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    groups = {"class": np.array(keys, dtype=str)}
    return conformal.Rows(np.concatenate(residual), cluster, groups, np.ones(len(keys), bool))


def test_a_thin_group_is_pulled_to_its_parent() -> None:
    factors = []
    for sources in (1, 3, 10):
        effects = conformal.fit_scale(thin(sources), STYLE).effects["class"]
        factors.append(math.exp(effects["rare"] - effects["common"]))
    assert factors == sorted(factors)
    assert 1.1 < factors[0] < 2.5  # one bench moves it, not all the way
    assert factors[-1] == pytest.approx(4.0, rel=0.35)


def test_a_group_that_was_never_seen_has_its_parent_s_width() -> None:
    scale = conformal.fit_scale(thin(3), STYLE)
    unknown = thin(3).of(np.arange(1))._replace(groups={"class": np.array(["new"])})
    assert scale.log_scale(unknown) == pytest.approx([scale.root])


def test_one_bench_of_many_rows_counts_no_more_than_its_cap() -> None:
    rng = np.random.default_rng(12)
    residual = np.concatenate([0.1 * rng.standard_normal(50 * 20), rng.standard_normal(5000)])
    cluster = np.concatenate([np.repeat(np.arange(20), 50), np.full(5000, 20)])
    own = np.ones(len(residual), bool)
    root = conformal.fit_scale(conformal.Rows(residual, cluster, {}, own), STYLE).root
    assert math.exp(root) < 0.25  # by rows alone it would be 0.7


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0.01, 10)), min_size=1, max_size=30),
    st.floats(0.01, 0.99),
)
def test_weighted_quantile_is_the_smallest_with_its_share(
    pairs: list[tuple[float, float]], p: float
) -> None:
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    found = conformal.weighted_quantile(values, weights, p)
    share = weights[values <= found].sum() / weights.sum()
    less = weights[values < found].sum() / weights.sum()
    assert share >= p - 1e-9
    assert less < p + 1e-9


# the file


def residual(**changes: Any) -> dict[str, Any]:
    return {
        "id": "a", "source": "one", "device": "H100", "device_class": "nvidia-hopper",
        "engine": "vllm", "family": "vllm", "arch": "dense", "model": "m", "flag": "ttft",
        "load_mode": "closed_loop", "concurrency": 8, "observed": 1.0, "predicted": 1.1, **changes,
    }  # fmt: skip


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({k: v for k, v in residual().items() if k != "source"}, "line 2: no field source"),
        (residual(observed=0.0), "line 2: not a row with positive figures"),
        (residual(predicted=-1), "line 2: not a row with positive figures"),
        (residual(observed="fast"), "line 2: not a row with positive figures"),
        ([1, 2], "line 2: not a row with positive figures"),
    ],
)
def test_a_residual_that_is_none_is_named(tmp_path: Path, row: Any, said: str) -> None:
    with pytest.raises(AskError, match=said):
        fit_intervals.read_residuals(written(tmp_path / "r.jsonl", residual(), row))


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AskError, match="has no rows"):
        fit_intervals.read_residuals(written(tmp_path / "r.jsonl"))
    with pytest.raises(AskError, match="No such file"):
        fit_intervals.read_residuals(tmp_path / "none.jsonl")
    (tmp_path / "r.jsonl").write_text("{\n")
    with pytest.raises(AskError, match="line 1: not a row"):
        fit_intervals.read_residuals(tmp_path / "r.jsonl")


def many(seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for source in range(12):
        for i in range(30):
            device = f"d{i % 2}"
            predicted = math.exp(0.2 * rng.standard_normal())
            flag = "throughput" if i % 3 else "ttft"
            rows.append(residual(
                id=f"{source}-{i}", source=f"s{source}", device=device, model=f"m{i % 5}",
                flag=flag, predicted=predicted,
            ))  # fmt: skip
    return rows


def test_the_command_writes_what_the_catalog_reads(tmp_path: Path, capsys: Any) -> None:
    from neoserve.catalog.intervals import resolve_spread

    source, out, report = (tmp_path / n for n in ("r.jsonl", "intervals.json", "left_out.json"))
    written(source, *many(), residual(predicted=None, flag="e2e_batched"))
    assert fit_intervals.main([str(source), "--out", str(out), "--report", str(report)]) == 0
    assert "90 % intervals" in capsys.readouterr().out
    whole = json.loads(out.read_text())
    assert whole["benches"] == {
        "nvidia-hopper|vllm": 13, "nvidia-hopper": 13, "vllm": 13,
    }  # fmt: skip
    for setting in ("new", "seen"):
        spread = resolve_spread(whole, "nvidia-hopper", "vllm", setting)
        assert set(spread.metrics) == {"ttft", "throughput"}  # one unanswered row is no metric
        low, high = spread.metrics["throughput"].quantiles["0.9"]
        # +-1.645 standard deviations, by 240 rows
        assert low * spread.metrics["throughput"].scale == pytest.approx(-0.33, abs=0.1)
        assert high * spread.metrics["throughput"].scale == pytest.approx(0.33, abs=0.1)
    told = json.loads(report.read_text())["new"]["throughput"]["all"]
    assert (told["n"], told["sources"], told["devices"]) == (240, 12, 2)
    assert told["coverage"] == pytest.approx(0.9, abs=0.06)
    # the difference of two independent errors of 0.2 is under 1.645 x 0.283 in 90 %
    assert whole["ratios"]["same_device"]["0.9"] == pytest.approx(0.465, abs=0.08)


def test_errors_that_two_choices_share_do_not_part_them() -> None:
    rng = np.random.default_rng(3)
    rows = []
    for source in range(30):
        common = rng.standard_normal()  # every figure of a bench is wrong together
        for device in ("a", "b"):
            own = 0.1 * rng.standard_normal()  # and each device by a little
            for i in range(4):
                error = common + own + 0.01 * rng.standard_normal()
                rows.append(residual(
                    id=f"{source}{device}{i}", source=f"s{source}", device=device,
                    flag="throughput", predicted=math.exp(error),
                ))  # fmt: skip
    found = fit_intervals.ratio_spread(rows)
    assert found["same_device"]["0.9"] == pytest.approx(1.645 * 0.01 * math.sqrt(2), rel=0.3)
    assert found["other_device"]["0.9"] == pytest.approx(1.645 * 0.1 * math.sqrt(2), rel=0.3)
