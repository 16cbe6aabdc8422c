"""Several client processes for one load: what they share out, say, and leave behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import EngineFailed
from neoserve.measure import crew
from neoserve.measure.crew import Note, Orders, run
from neoserve.measure.load import Plan
from neoserve.measure.prompts import WORDS
from neoserve.measure.schedule import plan
from neoserve.measure.target import Target
from neoserve.schema.workload import Workload

from .loading import send
from .truth import Truth, serving

OPEN = Workload(arrival="constant", rate_rps=40.0, prompt_tokens=8, output_tokens=3)
CLOSED = OPEN.replace(arrival="closed", concurrency=3)


def orders(workload, num, workers, url="http://127.0.0.1:9"):
    return Orders(Target(url), workload, plan(workload, num), "s", WORDS, workers)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 3), st.integers(0, 20))
def test_each_request_is_given_to_one_process_and_conversations_stay_whole(
    num, workers, turns, more
):
    workload = CLOSED.replace(turns=turns, concurrency=workers + more)
    asked = orders(workload, num, workers)
    plans = asked.plans()
    given_out = [index for part in plans for index in part.requests]
    assert sorted(given_out) == list(range(num * turns))
    sessions = [{r.session for r in part.requests.values()} for part in plans]
    assert sum(map(len, sessions)) == num == len(set().union(*sessions))
    shares = [part.concurrency for part in plans]
    assert sum(shares) == workers + more
    assert max(shares) - min(shares) <= 1


def test_more_processes_than_slots_do_not_raise_the_load():
    with serving(Truth(ttft_s=0.2)) as truth:
        rows = send(truth.url, CLOSED.replace(concurrency=2), 8, workers=4).rows
    assert max(sum(o.sent_s <= r.sent_s < o.last_token_s for o in rows) for r in rows) == 2


def test_a_look_may_end_the_load_of_several_processes():
    boards = []

    def look(board):
        boards.append((board.now_s, len(board.begun)))
        return "saturated" if board.now_s > 1.2 else None

    with serving(Truth(ttft_s=0.01, itl_s=0.4)) as truth:
        ran = send(truth.url, OPEN, 400, workers=2, on_tick=look)
    assert ran.stop == "saturated"
    assert {"ok", "cancelled", "unsent"} == {row.status for row in ran.rows}
    assert max(num for _, num in boards) >= 5  # answers of 0.8 s at 40 a second
    assert ran.cpu_s > 0
    assert len(ran.lags_s) > 50  # 50 a second from each of the two


@pytest.mark.parametrize("workers", [2])
def test_a_worker_that_cannot_start_is_a_clear_failure(workers, capfd):
    with pytest.raises(EngineFailed, match="ended before it was ready"):
        run(orders(OPEN, 4, workers, url="ftp://x"), lambda *_: None, lambda _: None)
    assert "ftp://x" in capfd.readouterr().err  # its error stands above


def children_of(pid):
    """Workers that a process has started."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if int(stat[1]) == pid and b"neoserve.measure.crew" in command:
            found.append(int(entry))
    return found


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal: a job in the background starts with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_worker_that_is_killed_does_not_hold_up_the_load_for_ever():
    num_seen, rescue = [], threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))

    def kill_one(*_):
        num_seen.append(1)
        if len(num_seen) == 5:
            os.kill(children_of(os.getpid())[0], signal.SIGKILL)

    with serving(Truth(ttft_s=0.02)) as truth:
        rescue.start()
        try:
            stop = send(truth.url, OPEN, 20, workers=2, on_row=kill_one).stop
        except EngineFailed:
            stop = "engine"
        finally:
            rescue.cancel()
    assert len(num_seen) >= 5
    assert stop != "interrupted"  # 20 requests in half a second, and two seconds to notice


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so):
    deadline_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_a_killed_parent_leaves_no_worker(tmp_path):
    with serving(Truth()) as truth:
        parent = subprocess.Popen(
            [sys.executable, "-m", "neoserve", "bench", truth.url, "--request-rate", "20", "--full",
             "--osl", "3", "--isl", "8", "--workers", "2", "--out", str(tmp_path / "run")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(lambda: len(truth.asked) > 10 or parent.poll() is not None)
        workers = children_of(parent.pid)
        parent.kill()
        parent.wait()
        assert len(workers) == 2
        wait_until(lambda: not any(map(is_alive, workers)))


# a worker's own side, as its parent sees it


class Parent(threading.Thread):
    """Gives one worker its orders and keeps what it tells."""

    def __init__(self, monkeypatch, asked, is_enough):
        super().__init__(daemon=True)
        orders_in, self._orders = os.pipe()
        told, told_out = os.pipe()
        self._told = os.fdopen(told, "rb")
        monkeypatch.setattr(sys, "stdin", os.fdopen(orders_in, "r", closefd=False))
        monkeypatch.setattr(sys, "stdout", os.fdopen(told_out, "w"))
        self._asked, self._is_enough = asked, is_enough
        self.notes = []

    def say(self, what):
        data = msgspec.msgpack.encode(what)
        os.write(self._orders, len(data).to_bytes(4, "big") + data)

    def hear(self):
        size = int.from_bytes(self._told.read(4), "big")
        self.notes.append(msgspec.msgpack.decode(self._told.read(size), type=Note))
        return self.notes[-1]

    def run(self):
        self.say(self._asked)
        assert self.hear().ready
        self.say(time.monotonic() + 0.1)
        while not self._is_enough(self.hear()):
            pass
        self.end()
        while not self.hear().ended:
            pass

    def end(self):
        self.say(None)


class LostParent(Parent):
    """Is gone without a word."""

    def end(self):
        os.close(self._orders)


def work(monkeypatch, parent_class, truth, is_enough, num=6):
    asked = Plan(
        Target(truth.url, model="truth"), OPEN, dict(enumerate(plan(OPEN, num))), "s", WORDS
    )
    before = signal.getsignal(signal.SIGINT)
    parent = parent_class(monkeypatch, asked, is_enough)
    parent.start()
    try:
        crew.main()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # Ctrl-C is its parent's
    finally:
        signal.signal(signal.SIGINT, before)
        sys.stdout.close()
    parent.join(10)
    return parent.notes


def test_a_worker_tells_every_row_and_goes_on_until_it_is_told_to_stop(monkeypatch):
    told = set()

    def all_rows(note):
        told.update(index for index, _ in note.rows)
        return len(told) == 6

    with serving(Truth(ttft_s=0.02)) as truth:
        notes = work(monkeypatch, Parent, truth, all_rows)
    rows = dict(pair for note in notes for pair in note.rows)
    assert sorted(rows) == list(range(6))
    assert {row.status for row in rows.values()} == {"ok"}
    assert [rows[i].due_s for i in range(6)] == pytest.approx([i / 40 for i in range(1, 7)])
    assert notes[-1].cpu_s > 0
    assert len(notes[-1].lags_s) >= 10
    assert [note.ended for note in notes].count(True) == 1


@pytest.mark.parametrize("parent_class", [Parent, LostParent])
def test_a_worker_ends_with_its_parent_and_says_what_was_in_flight(monkeypatch, parent_class):
    with serving(Truth(script=lambda _: "stall")) as truth:
        notes = work(monkeypatch, parent_class, truth, lambda note: len(note.flying) == 6)
    assert [index for index, _ in notes[-2].flying] == list(range(6))
    assert all(row.status == "cancelled" and row.sent_s for _, row in notes[-2].flying)
    assert not any(note.rows for note in notes)
    assert notes[-1].ended
