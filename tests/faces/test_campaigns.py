"""Campaigns as programs of their own: started once, followed, stopped as by Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from neoserve.errors import AskError, Error
from neoserve.faces import campaigns as module
from neoserve.faces.campaigns import START, Campaign, Campaigns, command
from neoserve.faces.cli import COMMANDS, parser_of
from neoserve.faces.http.app import Served, make_app
from neoserve.faces.http.guard import rules_for
from neoserve.faces.results import Results
from neoserve.faces.tool import Desk
from neoserve.faces.tools import BY_NAME
from neoserve.faces.tune_ask import tune_ask
from neoserve.faces.words import namespace

TOKEN = "0123456789abcdef0123"
# What `neoserve tune` does as seen from outside: notes on stderr, Ctrl-C ends it with 3.
FAKE = """
import sys, time
print("reading this host", file=sys.stderr, flush=True)
try:
    time.sleep(float(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted: concluding", file=sys.stderr, flush=True)
    sys.exit(3)
print("done", file=sys.stderr, flush=True)
"""


def until(state: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    deadline_s = time.monotonic() + 60
    while not wanted(found := state()):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.02)
    return found


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the next campaign lasts."""
    seconds = [30.0]
    monkeypatch.setattr(
        module, "command", lambda *_: [sys.executable, "-c", FAKE, str(seconds[0])]
    )
    return seconds


@pytest.fixture
def all_of(tmp_path: Path) -> Iterator[Campaigns]:
    found = Campaigns(tmp_path)
    yield found
    found.close()


def asked(**words: Any) -> Any:
    return namespace(START, {"slo": "ttft:p95<3s", **words})


def test_the_words_are_those_of_the_command() -> None:
    """What is started is what a person would type, and means the same."""
    args = asked(model="a b.gguf", engine="vllm", isl="1k", osl=64, slo="ttft:p95<3s; tpot:p95<1s",
                 budget="20m", rungs=[10, 20, 40], tolerance="5%", request_rate=0.1,
                 price="$0.5", max_candidates=3)  # fmt: skip
    words = command(args, Path("/r/x"))
    assert words[1:4] == ["-m", "neoserve.faces.cli", "tune"]
    tune = next(c for c in COMMANDS if c.name == "tune")
    parsed = parser_of(tune).parse_args(words[4:])
    parsed.engine_args = ()
    ask = tune_ask(parsed)
    assert (ask.model, ask.engine, ask.out) == ("a b.gguf", "vllm", "/r/x")
    assert (ask.workload.prompt_tokens, ask.workload.output_tokens) == (1000, 64)
    assert (ask.workload.rate_rps, ask.budget_s, ask.rungs) == (0.1, 1200.0, (10, 20, 40))
    assert (ask.tolerance, ask.usd_per_hour, ask.max_candidates) == (0.05, 0.5, 3)
    assert [t.metric for t in ask.slo.targets] == ["ttft", "tpot"]


def test_it_ends_even_if_nobody_said_when() -> None:
    assert "--budget=10m" in command(asked(), Path("x"))
    assert "--budget=10m" not in command(asked(budget="5 trials"), Path("x"))


@pytest.mark.parametrize("model", ["--resume=/etc", "-h"])
def test_a_model_is_no_option(model: str) -> None:
    with pytest.raises(AskError, match="expected a file"):
        command(asked(model=model), Path("x"))


@pytest.mark.parametrize("word", ["out", "resume", "space", "dataset_path", "quality_text"])
def test_words_that_open_other_files_are_not_taken(word: str) -> None:
    with pytest.raises(AskError, match="unknown option"):
        asked(**{word: "/etc/passwd"})


def test_one_runs_at_a_time_and_is_stopped_as_by_ctrl_c(
    all_of: Campaigns, lasting: list[float]
) -> None:
    state = all_of.start(asked(name="one"))
    assert (state.id, state.state, state.exit_code) == ("one", "running", None)
    until(lambda: all_of.state("one"), lambda s: s.lines)
    with pytest.raises(AskError, match="campaign one runs"):
        all_of.start(asked(name="two"))
    all_of.stop("one", wait_s=0.0)
    ended = until(lambda: all_of.state("one"), lambda s: s.state == "ended")
    assert ended.exit_code == 3
    assert ended.lines == ("reading this host", "interrupted: concluding")
    assert all_of.stop("one") == all_of.state("one")  # once more changes nothing
    lasting[0] = 0.0
    all_of.start(asked(name="two"))
    done = until(lambda: all_of.state("two"), lambda s: s.state == "ended")
    assert (done.exit_code, done.lines[-1]) == (0, "done")
    assert [c.id for c in all_of.list().campaigns] == ["two", "one"]
    again = all_of.state("two").elapsed_s
    assert again == done.elapsed_s  # it has stopped counting


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("name", ["../x", ".hidden", "a/b", "x" * 65, "a b", "-x"])
def test_a_name_is_one_folder(all_of: Campaigns, name: str) -> None:
    with pytest.raises(AskError, match="expected letters"):
        all_of.start(asked(name=name))


@pytest.mark.usefixtures("lasting")
def test_a_run_is_never_overwritten(all_of: Campaigns, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(AskError, match="there is a run there already"):
        all_of.start(asked(name="there"))
    with pytest.raises(AskError, match="no campaign 'other' was started here"):
        all_of.state("other")


@pytest.mark.usefixtures("lasting")
def test_the_end_of_the_server_ends_it(all_of: Campaigns) -> None:
    all_of.start(asked(name="one"))
    until(lambda: all_of.state("one"), lambda s: s.lines)
    all_of.close()
    assert all_of.state("one").exit_code == 3


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(Error, match="cannot be started"):
        Campaign("x", ["/none/such"])


def test_a_deaf_one_is_killed() -> None:
    deaf = "import signal,time\nsignal.signal(2, signal.SIG_IGN)\nprint('x', file=__import__" \
           "('sys').stderr, flush=True)\ntime.sleep(60)"  # fmt: skip
    campaign = Campaign("x", [sys.executable, "-c", deaf])
    until(campaign.state, lambda s: s.lines)
    campaign.stop(0.1)
    assert campaign.state().state == "stopping"
    campaign.kill()
    assert until(campaign.state, lambda s: s.state == "ended").exit_code == -9


@pytest.mark.usefixtures("lasting")
def test_over_http_it_takes_the_token(tmp_path: Path) -> None:
    """Even on this host: a page that got this far could otherwise start work."""
    desk = Desk(Results([tmp_path]), False, False, Campaigns(tmp_path))
    app = make_app(Served(desk, rules_for("127.0.0.1", TOKEN)))
    own = {"authorization": f"Bearer {TOKEN}"}
    words = {"slo": "ttft:p95<3s", "name": "one"}
    with TestClient(app, base_url="http://127.0.0.1:8765") as found:
        assert found.get("/api/status").json()["may_tune"] is True
        assert found.post("/api/tune", json=words).status_code == 401
        assert found.delete("/api/tune/one").status_code == 401
        assert found.get("/api/tune").json()["campaigns"] == []
        assert found.post("/api/tune", json={}, headers=own).status_code == 400
        started = found.post("/api/tune", json=words, headers=own)
        assert started.json()["state"] == "running"
        until(lambda: found.get("/api/tune/one").json(), lambda s: s["lines"])
        assert found.post("/api/tune", json=words, headers=own).status_code == 400
        assert found.delete("/api/tune/one", headers=own).json()["state"] in ("stopping", "ended")
        ended = until(lambda: found.get("/api/tune/one").json(), lambda s: s["state"] == "ended")
        assert ended["exit_code"] == 3
        assert found.get("/api/tune/none").status_code == 400


@pytest.mark.parametrize(
    ("name", "given"),
    [("start_tune", {"slo": "ttft:p95<3s"}), ("tune_status", {"id": "x"}),
     ("stop_tune", {"id": "x"})],
)  # fmt: skip
def test_a_desk_without_leave_refuses(name: str, given: dict[str, str]) -> None:
    with pytest.raises(AskError, match="needs --allow-tune"):
        BY_NAME[name].ask(Desk(Results([])), given)
