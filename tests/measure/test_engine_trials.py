"""Trials of the embedded llama.cpp: what the client says beside what the engine says."""

import os
import signal
import statistics
import threading

import pytest

from neoserve.errors import EngineFailed
from neoserve.measure.cores import host_cpus, split
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.api import Api
from neoserve.measure.engine.running import start
from neoserve.measure.stream import answer_text
from neoserve.measure.trial import TrialAsk, prepare, run_trial
from neoserve.schema.workload import Slo, Workload

from .loading import send

pytestmark = pytest.mark.engine
WORKLOAD = Workload(arrival="poisson", rate_rps=4.0, prompt_tokens=24, output_tokens=6, seed=1)


def config(**more):
    return llamacpp.config(
        llamacpp.demo_model_path(), **({"threads": 1, "parallel": 2, "context_tokens": 256} | more)
    )


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with start(config(), tmp_path_factory.mktemp("run") / "engine.log") as running:
        yield running


def measure(engine, **ask):
    fields = {"workload": WORKLOAD, "num_requests": 8, "num_warmup": 2} | ask
    asked = TrialAsk(slo=Slo.parse_text("ttft:p95<60s"), **fields)
    return run_trial(engine, prepare(engine, asked))


@pytest.mark.parametrize("route", ["completions", "chat"])
def test_tokens_served_are_those_that_usage_counts(engine, route):
    """llama.cpp streams one token a chunk, so the chunks can be counted for once."""
    rows = send(engine.url, WORKLOAD.replace(prompt_tokens=48), 4, route=route).rows
    assert [row.status for row in rows] == ["ok"] * 4, rows[0].error
    assert {row.prompt_tokens for row in rows} == {48}
    assert {row.output_tokens for row in rows} == {6}
    # a token that ends inside a character or at the end of a word may come without text
    assert all(3 <= len(row.itl_s) + 1 <= 6 for row in rows)


def test_a_trial_says_what_ran(engine):
    cores = split(host_cpus(), 1)
    found = measure(engine)
    trial = found.trial
    assert trial.num_ok == 8
    assert trial.facts.threads == 1
    assert trial.facts.context_tokens == 256
    assert trial.counters["output_tokens"] >= 8 * 6
    assert trial.client.engine_cpu_s > 0
    assert trial.queue_s.num == 8  # llama.cpp tells how long each prompt took
    assert all(0 <= row.queue_s <= row.ttft_s for row in found.rows if row.status == "ok")
    assert trial.client.shares_cores  # no plan was given
    assert cores.client_cpus


def test_server_and_client_agree_on_time_per_token(engine):
    """The engine's own clock: predicted_ms of `timings`, read from an answer without a client."""
    alone_at_a_time = Workload(arrival="closed", concurrency=1, prompt_tokens=24, output_tokens=24)
    found = measure(engine, num_requests=6, workload=alone_at_a_time)
    rows = [row for row in found.rows if row.status == "ok"]
    asked = {"prompt": " one two three four five six seven", "n_predict": 24, "ignore_eos": True}
    alone = [Api(engine.url).post("/completion", asked, 60.0)["timings"] for _ in range(3)]
    told_s = statistics.median(t["predicted_per_token_ms"] / 1e3 for t in alone)
    seen_s = statistics.median(row.tpot_s for row in rows)
    assert 0.4 * told_s < seen_s < 2.5 * told_s  # the host may be busier at one of them


def test_conversations_find_their_history_in_the_cache(engine):
    """The second turn's prompt holds the first; llama.cpp says how much of it was cached."""
    workload = Workload(arrival="closed", concurrency=1, turns=2, prompt_tokens=40, output_tokens=4)
    rows = measure(engine, workload=workload, num_requests=3, route="chat").rows
    second = [row for row in rows if row.turn == 1 and row.status == "ok"]
    assert len(second) >= 3
    assert all(row.prompt_tokens > 50 for row in second)
    assert all(row.cached_tokens > 30 for row in second)


def test_a_prompt_that_does_not_fit_is_the_engines_own_refusal(engine):
    with pytest.raises(EngineFailed, match=r"does not serve: HTTP 400.*context"):
        send(engine.url, WORKLOAD.replace(prompt_tokens=400), 2)


def test_an_engine_that_dies_voids_the_trial(tmp_path):
    with start(config(), tmp_path / "engine.log") as engine:
        prepared = prepare(engine, TrialAsk(workload=WORKLOAD, num_requests=40))
        timer = threading.Timer(2.5, os.kill, (engine.pid, signal.SIGKILL))
        timer.start()
        trial = run_trial(engine, prepared).trial
    assert (trial.verdict, trial.stop) == ("VOID", "engine")
    assert "the engine ended during the trial" in trial.reasons[0]
    assert trial.num_judged < 40


def test_what_runs_otherwise_than_asked_voids_the_trial(tmp_path):
    asked = config(extra=("--threads", "2"))  # after --threads 1: llama.cpp takes the last
    lying = asked.replace(argv=(*asked.argv[:-2],))
    with start(asked, tmp_path / "engine.log") as engine:
        engine.config = lying
        trial = measure(engine, num_requests=3).trial
    assert trial.verdict == "VOID"
    assert "--threads asked for 1, but 2 runs" in trial.reasons


def test_answers_of_a_real_engine_can_be_read(engine):
    answers = {}
    from neoserve.measure.crew import Orders, run
    from neoserve.measure.load import ask_once
    from neoserve.measure.schedule import plan
    from neoserve.measure.target import Target, fitted

    longer = WORKLOAD.replace(prompt_tokens=60)
    target, words = fitted(Target(engine.url, "chat"), longer, "s", ask_once)
    orders = Orders(target, longer, plan(longer, 2), "s", words)
    run(orders, lambda *_: None, lambda _: None, answers.__setitem__)
    texts = [answer_text(answer.body()) for answer in answers.values()]
    assert len(texts) == 2
    assert all(text.strip() for text in texts)
