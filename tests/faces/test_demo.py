"""The demo on the embedded engine, a few seconds of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from measure.judging import planned, setting_for
from neoserve.errors import AskError
from neoserve.evidence.verify import verify_run
from neoserve.faces import demo
from neoserve.faces.ask import answer_predict
from neoserve.faces.demo import fresh_folder
from neoserve.measure.figures import judge_rows
from neoserve.schema.ask import PredictAsk
from neoserve.schema.prediction import Prediction
from neoserve.schema.trial import RequestRow, Trial
from neoserve.schema.workload import Slo, Workload
from neoserve.units import show_duration

from .conftest import Cli


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo"
    for name in ("demo", "demo-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").touch()
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo-3"


@pytest.mark.engine
def test_a_short_run_is_recorded_and_verifies(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    said = cli("demo", "--seconds", "3", "--rate", "1", "--out", str(folder), "--json")
    trial = said.document
    assert said.code == {"PASS": 0, "FAIL": 1}.get(trial["verdict"], 3)
    assert trial["schema"] == "neoserve/trial/1"
    assert trial["num_planned"] == 3  # seconds x rate
    assert trial["workload"]["rate_rps"] == 1
    head = verify_run(folder).head
    assert head in said.err
    assert "llama.cpp" in (folder / "compose.yaml").read_text()
    checked = cli("verify", str(folder), "--head", head, "--json")
    assert checked.code == 0
    with (folder / "ledger.jsonl").open("a") as ledger:
        ledger.write("{}\n")
    assert cli("verify", str(folder)).code == 5


# what is shown, without an engine


WORKLOAD = Workload(arrival="constant", rate_rps=50.0, prompt_tokens=20, output_tokens=5)


def rows(num: int, status: str = "ok") -> list[RequestRow]:
    """Each 0.125 s to the first token and 0.225 s to the fifth, 0.025 s a token."""
    times = {"first_token_s": 0.125, "last_token_s": 0.225} if status == "ok" else {}
    return [
        RequestRow(
            due_s=i / 50, sent_s=i / 50, status=status, prompt_tokens=20, output_tokens=5,
            **{name: i / 50 + seconds for name, seconds in times.items()},
        )
        for i in range(num)
    ]  # fmt: skip


def observed(some_rows: list[RequestRow]) -> Trial:
    setting = setting_for(some_rows, workload=WORKLOAD, slo=Slo.parse_text(demo.SLO))
    return judge_rows(setting, some_rows, planned(some_rows))


def predicted(on: str = "H100-SXM") -> Prediction:
    model = "meta-llama/Meta-Llama-3.1-70B" if on == "L4" else "Qwen/Qwen3-8B"
    return answer_predict(PredictAsk(model=model, on=on, online=False))


def test_predicted_stands_beside_measured() -> None:
    guess = predicted()
    text = demo.show(guess, observed(rows(300)))
    lines = {line[:16].strip(): line.split() for line in text.splitlines()}
    assert lines["TTFT, mean"][4:6] == ["125", "ms"]
    assert lines["TPOT, mean"][4:6] == ["25.0", "ms"]
    assert lines["end to end, mean"][6:8] == ["225", "ms"]
    assert guess.latency is not None
    assert f" {show_duration(guess.latency.ttft_s.mean)} " in text
    said = " ".join(text.split())
    assert "PASS on ttft:p95<3s: 300 of 300 requests served" in said
    assert "its capacity is not known" in said


def test_few_requests_bound_nothing_from_above() -> None:
    # of 20 some are above the true p95 with 64 %, so it has no bound; of one it has none at all
    text = demo.show(predicted(), observed(rows(20)))
    assert "125 ms (125 ms to unbounded)" in text
    assert "125 ms (unbounded to unbounded)" in demo.show(predicted(), observed(rows(1)))
    assert "INCONCLUSIVE" in text


def test_what_failed_has_no_figures() -> None:
    trial = observed(rows(80, "http"))
    text = demo.show(predicted(), trial)
    assert "FAIL" in text
    assert "0 of 80 requests served" in text
    assert text.count("unknown") >= 4  # three means and their intervals
    assert demo.measured_line(trial).startswith("TTFT unknown, TPOT unknown, ")


def test_a_prediction_that_would_not_start_is_its_reason() -> None:
    refused = predicted("L4")
    assert demo.predicted_line(refused) == refused.refusal
    assert "TTFT, mean" not in demo.show(refused, observed(rows(80)))


def test_lines_of_the_recipe() -> None:
    assert demo.measured_line(observed(rows(300))).startswith("TTFT 125 ms, TPOT 25.0 ms, ")
    assert demo.predicted_line(predicted()).endswith(" output tokens/s")


def test_a_file_is_no_run_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(AskError, match="is a file; expected a folder"):
        fresh_folder(file)


@pytest.mark.parametrize(("seconds", "rate"), [(0, 1), (3601, 1), (1, 0), (1, 101)])
def test_absurd_loads_are_refused(seconds: float, rate: float) -> None:
    with pytest.raises(AskError, match="--seconds takes up to 3600"):
        demo.run(seconds, rate, "out", lambda _: None)
