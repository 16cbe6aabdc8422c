"""What a session does between trials, on a server that tells how busy it is."""

import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from measure.truth import Truth, serving
from neoserve.evidence import ledger
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.measure.engine.running import attach
from neoserve.measure.figures import recompute
from neoserve.measure.host import host_print
from neoserve.measure.trial import TrialAsk
from neoserve.schema.workload import Slo, Workload
from neoserve.tune import session as module
from neoserve.tune.session import Interrupted, Session

WORKLOAD = Workload(arrival="poisson", rate_rps=40.0, prompt_tokens=20, output_tokens=3, seed=1)


@pytest.fixture
def busy_server():
    """Tells vLLM's gauges, one after another: (running, waiting); the last one stays."""
    gauges, looks = [(0, 0)], []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            text = json.dumps({"data": [{"id": "m"}]})
            if self.path == "/metrics":
                running, waiting = gauges.pop(0) if len(gauges) > 1 else gauges[0]
                looks.append((running, waiting))
                text = f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", gauges, looks
    finally:
        server.shutdown()
        server.server_close()


def test_a_trial_waits_for_what_the_last_one_left_behind(busy_server, monkeypatch):
    monkeypatch.setattr(module, "_SETTLE_POLL_S", 0.01)
    url, gauges, looks = busy_server
    gauges[:] = [(2, 1), (1, 0), (0, 1), (0, 0)]
    module._settle(attach(url))
    assert looks == [(2, 1), (1, 0), (0, 1), (0, 0)]


def test_a_server_that_never_settles_is_loaded_all_the_same(busy_server, monkeypatch):
    monkeypatch.setattr(module, "_SETTLE_POLL_S", 0.01)
    monkeypatch.setattr(module, "_SETTLE_S", 0.1)
    url, gauges, looks = busy_server
    gauges[:] = [(1, 0)]
    module._settle(attach(url))
    assert len(looks) >= 2


def session(tmp_path, truth, notes):
    host = host_print()
    run = Run.create(tmp_path / "run", "bench", seed=0, versions={}, host=host, argv=())
    return Session(run, attach(truth.url), host, None, notes.append)


def test_rows_that_cannot_be_spooled_are_said_and_kept_in_the_trial(tmp_path, monkeypatch):
    """The spool's file is gone under it; the rows are still in memory when the load ends."""
    notes, start = [], Run.start

    def broken(self, body):
        spool = start(self, body)
        spool.close()  # from now on every write fails, as on a full disk
        return spool

    monkeypatch.setattr(Run, "start", broken)
    with serving(Truth(ttft_s=0.01)) as truth:
        mine = session(tmp_path, truth, notes)
        found = mine.measure(TrialAsk(workload=WORKLOAD, num_requests=10, num_warmup=2))
    assert notes[0].startswith("not all rows could be kept while the load ran: ")
    assert found.trial.num_ok == 10
    assert verify_run(tmp_path / "run", recompute=recompute).num_recomputed == 1


def test_a_search_that_is_interrupted_keeps_its_trials(tmp_path):
    notes, before = [], signal.signal(signal.SIGINT, signal.default_int_handler)
    ask = TrialAsk(workload=WORKLOAD, slo=Slo.parse_text("ttft:p95<5s"), num_requests=400,
                   num_warmup=2)  # fmt: skip
    try:
        with serving(Truth(ttft_s=0.01)) as truth:
            mine = session(tmp_path, truth, notes)
            mine.on_look = lambda look: look.board.now_s > 0.6 and signal.raise_signal(
                signal.SIGINT
            )
            with pytest.raises(Interrupted):
                mine.find_max_rate(ask, 0.1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert notes[0] == "probing 40 requests/s"
    assert [o.trial.stop for o in mine.trials] == ["interrupted"]
    entries = ledger.entries(tmp_path / "run" / "ledger.jsonl")
    assert [entry.kind for entry in entries] == ["run", "started", "trial"]  # no max-rate
