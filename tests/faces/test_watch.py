"""`neoserve watch`, through the command line, on a server whose metrics are given."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from neoserve.evidence.run import Run
from neoserve.faces import watch_export
from neoserve.faces.watch import exit_code, read_capacity
from neoserve.schema.capacity import MaxRate
from neoserve.schema.watch import Capacity, Watch, WatchedTarget

from .conftest import Cli

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDED = ROOT / "tests" / "data" / "metrics"
BEFORE, AFTER = (RECORDED / f"vllm_{name}.txt" for name in ("before", "after"))
QUICK = ("--interval", "0.1s", "--window", "10s", "--count")
SLO = ("--slo", "ttft:p50<10s; tpot:p50<5s; tpot:mean<10s; ttft:p95<160s; e2e:p50<100s")


class Server(ThreadingHTTPServer):
    """Gives one text after the other, the last for ever."""

    texts: list[str]
    url: str


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            texts = found.texts
            body = (texts.pop(0) if len(texts) > 1 else texts[0]).encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    found = Server(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{found.server_address[1]}"
    found.texts = [BEFORE.read_text(), AFTER.read_text()]
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def total(path: Path, name: str) -> float:
    """All series of a name, by Prometheus' own reader."""
    families = text_string_to_metric_families(path.read_text())
    return sum(s.value for family in families for s in family.samples if s.name == name)


def gained(name: str) -> float:
    return total(AFTER, name) - total(BEFORE, name)


# recorded vLLM


def test_what_a_real_vllm_said(cli: Cli, server: Server) -> None:
    said = cli("watch", server.url, *SLO, *QUICK, "1", "--json")
    found = said.document
    assert (said.code, found["schema"]) == (1, "neoserve/watch/1")
    assert found["num_requests"] == gained("vllm:request_success_total") > 10
    rate = gained("vllm:generation_tokens_total") / found["window_s"]
    assert found["output_tokens_per_s"] == pytest.approx(rate)
    ttft, tpot, mean, tail, e2e = found["targets"]
    # 3 of 23 first tokens came within 10 s, the 12th in the bucket from 40 to 80 s
    assert (ttft["state"], ttft["num"], ttft["low_s"], ttft["high_s"]) == ("missed", 23, 40, 80)
    assert ttft["miss_share_low"] == ttft["miss_share_high"] == pytest.approx(20 / 23)
    assert (tpot["state"], tpot["low_s"], tpot["high_s"]) == ("met", 2.5, 5.0)
    name = "vllm:request_time_per_output_token_seconds"
    assert mean["series"] == name
    assert mean["low_s"] == mean["high_s"] == pytest.approx(gained(f"{name}_sum") / 18)
    assert tail["state"] == e2e["state"] == "unknown"
    assert "23 requests say too little (without a miss: 59)" in tail["reason"]
    assert "3 to 15 of 18 requests above the limit; the limit lies within a" in e2e["reason"]
    assert found["drift"] == "unknown"  # nothing says what it should hold
    assert "64 requests wait" in found["notes"][0]


def test_it_is_held_against_a_certified_rate(cli: Cli, server: Server, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", "bench", seed=0, versions={})
    record_trial(run)
    for certified, state in ((1e6, "drift"), (0.001, "overload")):
        best = MaxRate(certified_rps=certified, not_met_rps=None, tolerance=0.05, level=0.05,
                       probes=(), notes=())  # fmt: skip
        run.record("max-rate", best.to_data())
        server.texts = [BEFORE.read_text(), AFTER.read_text()]
        found = cli("watch", server.url, "--slo", "ttft:p50<1s", "--against", str(run.path),
                    *QUICK, "1", "--json").document  # fmt: skip
        assert found["drift"] == state
        assert found["load_share"] == pytest.approx(found["request_rate_rps"] / certified)
    assert "other traffic" in " ".join(found["notes"])  # 512 tokens were certified


def record_trial(run: Run) -> None:
    from evidence.sample import ROWS, SCHEDULE, trial

    run.record_trial(trial(), rows=ROWS, schedule=SCHEDULE)


def test_the_canonical_campaign_certifies_what_its_recommendation_says() -> None:
    path = ROOT / "results" / "canonical" / "llamacpp-smollm2"
    capacity, slo = read_capacity(str(path))
    [line] = [line for line in (path / "ledger.jsonl").read_text().splitlines()
              if '"kind":"recommendation"' in line]  # fmt: skip
    body: Any = json.loads(line)["body"]
    assert capacity.rate_rps == body["pick"]["capacity"]["certified_rps"]
    assert capacity.output_tokens == body["trial"]["workload"]["output_tokens"]
    assert len(slo.targets) == len(body["slo"]["targets"]) > 0


def test_a_restart_begins_anew(cli: Cli, server: Server) -> None:
    server.texts = [AFTER.read_text(), BEFORE.read_text(), AFTER.read_text()]
    said = cli("watch", server.url, *SLO, *QUICK, "2", "--json")
    first, second = map(json.loads, said.out.splitlines())
    assert "started anew" in first["notes"][0]
    assert first["num_requests"] == 0
    assert second["num_requests"] == gained("vllm:request_success_total")


def test_lines_for_people(cli: Cli, server: Server) -> None:
    said = cli("watch", server.url, *SLO, *QUICK, "1")
    assert re.search(r"[\d.]+ requests/s, [\d.,]+ output tokens/s, 5 running", said.out)
    told = "ttft:p50<10.0 s missed: p50 in the bucket 40.0 s to 80.0 s; 20 of 23 requests above"
    assert told in said.out


# refusals


def test_bad_watches(refused: Any, cli: Cli, server: Server, tmp_path: Path) -> None:
    dead = cli("watch", "http://127.0.0.1:9", *QUICK, "1")
    assert dead.code == 4
    assert "cannot be read" in dead.err
    server.texts = ["up 1\n"]
    assert cli("watch", server.url, *QUICK, "1").code == 4
    assert "no run folder" in refused("watch", server.url, "--against", str(tmp_path))
    assert "--interval" in refused("watch", server.url, "--interval", "10m")
    told = refused("watch", server.url, *QUICK, "1", "--listen", "here")
    assert "expected PORT or HOST:PORT" in told


# our own /metrics


def target(name: str, state: str) -> WatchedTarget:
    return WatchedTarget(target=name, state=state, reason="", num=7, low_s=0.1, high_s=None,  # type: ignore[arg-type]
                         miss_share_low=0.0, miss_share_high=0.5)  # fmt: skip


LOOK = Watch(
    url="http://x", at="now", window_s=10.0, request_rate_rps=2.0, load_share=0.5, drift="within",
    targets=(target("a<1 s", "met"), target("b", "missed"), target("c", "unknown")),
    capacity=Capacity(source='run "x"\n\\', basis="measured", rate_rps=4.0),
)  # fmt: skip


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_our_page() -> None:
    found = samples(watch_export.page(LOOK))
    assert found["neoserve_watch_up",] == 1
    assert found["neoserve_watch_load_ratio",] == 0.5
    assert found["neoserve_watch_capacity_rate", "measured", 'run "x"\n\\'] == 4.0
    assert found["neoserve_watch_slo_met", "a<1 s"] == 1
    assert found["neoserve_watch_slo_met", "b"] == 0
    assert ("neoserve_watch_slo_met", "c") not in found  # not known is not 0
    assert ("neoserve_watch_quantile_high_seconds", "a<1 s") not in found
    assert found["neoserve_watch_drift", "within"] == 1
    assert found["neoserve_watch_drift", "drift"] == 0
    assert samples(watch_export.page(None)) == {("neoserve_watch_up",): 0}


def test_our_page_is_served_while_we_watch() -> None:
    said: list[str] = []
    with watch_export.serving("127.0.0.1:0", said.append) as publish:
        url = said[0].removeprefix("metrics at ")
        publish(LOOK)
        with urllib.request.urlopen(url) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert samples(answer.read().decode())["neoserve_watch_request_rate",] == 2.0
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(url.replace("/metrics", "/other"))


def test_exit_codes() -> None:
    def code(*states: str) -> int:
        return exit_code(LOOK.replace(targets=tuple(target("t", s) for s in states)))

    assert [code(), code("met"), code("met", "unknown"), code("missed", "unknown")] == [0, 0, 3, 1]
    assert exit_code(None) == 3


# a real server


@pytest.mark.engine
def test_the_embedded_engine_is_watched(cli: Cli, tmp_path: Path) -> None:
    from neoserve.faces.bench import started_config
    from neoserve.measure.engine.running import start

    config = started_config("llama.cpp", "", (), {}, 256)
    stop = threading.Event()

    def load(url: str) -> None:
        asked = {"prompt": "Once", "n_predict": 16, "cache_prompt": False}
        while not stop.is_set():
            request = urllib.request.Request(f"{url}/completion", json.dumps(asked).encode(),
                                             {"Content-Type": "application/json"})  # fmt: skip
            urllib.request.urlopen(request, timeout=60).read()

    with start(config, tmp_path / "engine.log") as engine:
        thread = threading.Thread(target=load, args=(engine.url,))
        thread.start()
        try:
            said = cli("watch", engine.url, "--slo", "tpot:mean<10s; ttft:p95<10s", "--interval",
                       "2s", "--count", "1", "--json", "--against",
                       str(ROOT / "results/canonical/llamacpp-smollm2"))  # fmt: skip
        finally:
            stop.set()
            thread.join()
    found = said.document
    tpot, ttft = found["targets"]
    assert (said.code, tpot["state"], ttft["state"]) == (3, "met", "unknown")
    assert "no histogram" in ttft["reason"]  # llama.cpp publishes none
    assert 0 < tpot["low_s"] < 10
    assert found["output_tokens_per_s"] > 0
    assert found["load_share"] > 0
    assert "counts no requests" in " ".join(found["notes"])
