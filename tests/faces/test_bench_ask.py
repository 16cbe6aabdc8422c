"""From the options of `neoserve bench` to what it measures."""

import contextlib
import datetime

import pytest

from evidence.sample import trial
from neoserve.catalog.hardware import all_hardware, find_machine
from neoserve.errors import AskError
from neoserve.faces import bench_ask as module
from neoserve.faces.bench import _context_tokens, config_of, exit_code
from neoserve.faces.bench_ask import bench_ask
from neoserve.faces.cli import COMMANDS, parser_of
from neoserve.faces.requests import bench_workload
from neoserve.schema.bench import Bench
from neoserve.schema.workload import Slo

URL = "http://127.0.0.1:1"
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:00:{i:02d}.0000000,{100 + i},{10 + i}\n" for i in range(20)
)


def parsed(*words, engine_args=()):
    command = next(c for c in COMMANDS if c.name == "bench")
    args = parser_of(command).parse_args(list(words))
    args.engine_args = tuple(engine_args)
    return args


def asked(*words, **more):
    return bench_ask(parsed(URL, *words, **more))


def workload(*words):
    return bench_workload(parsed(URL, *words))


@pytest.mark.parametrize(
    ("words", "arrival"),
    [
        ((), "closed"),
        (("--max-concurrency", "8"), "closed"),
        (("--rate", "2"), "poisson"),
        (("--rate", "2", "--burstiness", "1"), "poisson"),
        (("--rate", "2", "--burstiness", "0.5"), "gamma"),
        (("--rate", "2", "--ramp-up-start-rps", "1"), "ramp"),
        (("--rate", "2", "--arrival", "mmpp"), "mmpp"),
        (("--rate", "2", "--arrival", "constant"), "constant"),
        (("--trace", "x.csv"), "trace"),
        (("--trace", "x.csv", "--rate", "2"), "trace"),
        (("--trace", "x.csv", "--rate", "2", "--arrival", "poisson"), "poisson"),
    ],
)
def test_the_law_of_arrivals_follows_from_what_is_given(words, arrival):
    assert workload(*words).arrival == arrival


def test_every_option_of_the_load_arrives():
    found = workload(
        "--rate", "2.5", "--arrival", "mmpp", "--burst-ratio", "3", "--burst-share", "20%",
        "--burst-length", "500ms", "--isl", "1k", "--osl", "64", "--isl-cv", "0.3", "--osl-cv",
        "0.4", "--prefix-hit-share", "0.25", "--turns", "3", "--think-time", "2s",
        "--no-ignore-eos", "--seed", "7", "--dataset-path", "d.jsonl",
    )  # fmt: skip
    assert (found.rate_rps, found.burst_ratio, found.burst_share) == (2.5, 3.0, 0.2)
    assert (found.burst_length_s, found.prompt_tokens, found.output_tokens) == (0.5, 1000, 64)
    assert (found.prompt_tokens_cv, found.output_tokens_cv) == (0.3, 0.4)
    assert (found.prefix_hit_share, found.turns, found.think_time_s) == (0.25, 3, 2.0)
    assert (found.ignore_eos, found.seed, found.dataset) == (False, 7, "d.jsonl")
    usual = workload("--max-concurrency", "8")
    assert (usual.concurrency, usual.ignore_eos, usual.turns) == (8, True, 1)


def test_no_request_in_flight_is_no_load():
    with contextlib.suppress(AskError):  # where it is refused is not the point
        assert workload("--max-concurrency", "0").concurrency == 0


@pytest.mark.parametrize("words", [("--ramp-up-start-rps", "1"), ("--burstiness", "0.5")])
def test_the_shape_of_an_open_load_needs_its_rate(words):
    with pytest.raises(AskError, match="--request-rate"):
        workload(*words)


@pytest.mark.parametrize(
    ("words", "num"),
    [
        (("--rate", "4"), 400),
        (("--rate", "4", "--num-prompts", "60"), 60),
        (("--rate", "4", "--duration", "30s"), 120),
        (("--rate", "4", "--duration", "1ms"), 1),
        (("--max-concurrency", "4", "--num-requests", "2k"), 2000),
    ],
)
def test_how_many_requests(words, num):
    assert asked(*words).trial.num_requests == num


def test_prices_and_their_sources():
    given = asked("--price", "$1.5", "--on", "L40S").trial
    assert (given.usd_per_hour, given.price_source) == (1.5, "given with --price")
    none = asked().trial
    assert (none.usd_per_hour, none.price_source) == (None, "")
    machine = find_machine("c8g.4xlarge", None)
    listed = asked("--on", "c8g.4xlarge").trial
    assert listed.usd_per_hour == machine.price.usd_per_hour
    assert listed.price_source.startswith(f"{machine.id}: published, {machine.price.source}")
    assert machine.price.date in listed.price_source


def test_the_age_of_a_price_is_said_once_it_is_stale(monkeypatch):
    date = datetime.date.fromisoformat(find_machine("c8g.4xlarge", None).price.date)

    class Later(datetime.date):
        @classmethod
        def today(cls):
            return date + datetime.timedelta(days=1000)

    monkeypatch.setattr(module.datetime, "date", Later)
    assert asked("--on", "c8g.4xlarge").trial.price_source.endswith(", 1000 days old")


def test_hardware_without_a_price_has_to_be_given_one():
    names = [entry["id"] for entry in all_hardware()]
    unpriced = next(name for name in names if find_machine(name, None).price is None)
    with pytest.raises(AskError, match=r"has no price of .*; give --price"):
        asked("--on", unpriced)
    assert asked("--on", unpriced, "--price", "2").trial.usd_per_hour == 2.0


def test_two_devices_cost_twice_as_much_as_one(cli):
    words = ("Qwen/Qwen3-8B", "--on", "2xL40S", "--tp", "2", "--offline", "--json")
    predicted = cli("predict", *words).document["cost"]["usd_per_hour"]
    one = find_machine("1xL40S", None).price.usd_per_hour
    assert predicted == pytest.approx(2 * one)
    assert asked("--on", "2xL40S").trial.usd_per_hour == pytest.approx(predicted)


def test_keys_come_from_the_option_or_the_environment(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert asked().api_key == ""
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    assert asked().api_key == "theirs"
    assert asked("--api-key", "mine").api_key == "mine"


def test_what_else_arrives():
    found = asked("--rate", "1", "--slo", "ttft:p95<3s", "--full", "--repeat", "3", "--workers",
                  "2", "--timeout", "9s", "--route", "chat", "--model", "m", "--num-warmups", "0",
                  "--ready-timeout", "2m", "--find-max-rate", "--tolerance", "10%",
                  "--plot", "a.SVG")  # fmt: skip
    trial = found.trial
    assert (trial.ends_early, trial.workers, trial.timeout_s) == (False, 2, 9.0)
    assert (trial.route, trial.num_warmup, trial.slo.show()) == ("chat", 0, "ttft:p95<3.00 s")
    assert (found.repeat, found.model, found.ready_timeout_s) == (3, "m", 120.0)
    assert (found.max_rate_tolerance, found.plot) == (0.1, "a.SVG")
    assert asked("--rate", "1").max_rate_tolerance is None
    assert asked().trial.num_warmup is None


def test_the_engines_environment_may_hold_equals_signs():
    args = parsed("m.gguf", "--engine", "vllm", "--env", "A=1", "--env", "B=x=y", "--env", "C=",
                  engine_args=("--x",))  # fmt: skip
    found = bench_ask(args)
    assert found.engine_env == {"A": "1", "B": "x=y", "C": ""}
    assert (found.engine, found.target, found.engine_args) == ("vllm", "m.gguf", ("--x",))


@pytest.mark.parametrize("pair", ["A", "=1", ""])
def test_an_environment_without_a_name_is_refused(pair):
    with pytest.raises(AskError, match="is not NAME=VALUE"):
        bench_ask(parsed("m", "--engine", "vllm", "--env", pair))


@pytest.mark.parametrize("words", [("--timeout", "0s"), ("--workers", "0"), ("--repeat", "0")])
def test_noughts_are_refused(words):
    with pytest.raises(AskError, match="have to be above 0"):
        asked(*words)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "t.csv").write_text(TRACE)
    (tmp_path / "d.jsonl").write_text('{"prompt": "%s"}\n{"prompt": "short"}\n' % ("a " * 2000))
    return tmp_path


def test_traces_and_datasets_are_read_and_sized(files):
    """The engine's context holds the longest request of either, in steps of 256."""
    traced = asked("--trace", str(files / "t.csv"))
    assert traced.trial.trace.lengths()[19] == (119, 29)
    # a request of 512 + 128 tokens is longer than any of the trace; 64 more for a template
    assert _context_tokens(traced.trial) == 768
    small = asked("--trace", str(files / "t.csv"), "--isl", "8", "--osl", "8").trial
    assert _context_tokens(small) == 256  # 119 + 29 + 64
    mine = asked("--dataset-path", str(files / "d.jsonl"), "--isl", "8", "--osl", "100").trial
    assert len(mine.dataset) == 2
    assert 2000 + 100 + 64 <= _context_tokens(mine) == 2304
    talks = asked("--isl", "100", "--osl", "100", "--turns", "5").trial
    assert _context_tokens(talks) == 1280  # 5 x 200 + 64, rounded up


def test_the_embedded_engine_takes_flags_of_its_own():
    found = config_of(bench_ask(parsed("--engine", "llama.cpp", "--env", "A=1",
                                       engine_args=("--threads", "3", "-np", "2"))))  # fmt: skip
    assert found.engine
    text = " ".join(found.argv)
    assert text.count("--threads 3") == 2  # asked for by us with their value, and by them
    assert found.env["A"] == "1"


def test_only_an_slo_can_be_undecided():
    def code(verdict, **changes):
        return exit_code(Bench(trials=(trial(**changes),), verdict=verdict, run="r", head="h"))

    assert [code(v) for v in ("PASS", "FAIL", "INCONCLUSIVE", "VOID")] == [0, 1, 3, 4]
    assert code("INCONCLUSIVE", slo=Slo()) == 0
    assert code("INCONCLUSIVE", slo=Slo(), num_ok=0) == 3
    assert code("VOID", slo=Slo()) == 4
