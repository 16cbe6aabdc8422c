from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from neoserve.errors import AskError, EvidenceBroken
from neoserve.measure.arrivals import arrival_times_s
from neoserve.measure.dataset import UserPrompt
from neoserve.measure.schedule import parse, plan, to_jsonl
from neoserve.measure.traces import read_trace
from neoserve.schema.workload import Workload

DATA = Path(__file__).parents[1] / "data" / "traces"
POISSON = Workload(arrival="poisson", rate_rps=5.0, seed=3)
REPLAY = Workload(arrival="trace")
DATASET = tuple(UserPrompt(f"p{i}", (f"p{i}", f"q{i}"), i) for i in range(4))


def test_phases_share_one_process():
    schedule = plan(POISSON, 30, num_warmup=5, num_drain=10)
    assert [r.phase for r in schedule] == ["warmup"] * 5 + ["measured"] * 30 + ["drain"] * 10
    assert tuple(r.due_s for r in schedule) == arrival_times_s(POISSON, 45)
    assert [r.session for r in schedule] == list(range(45))
    assert {(r.prompt_tokens, r.output_tokens) for r in schedule} == {(512, 128)}


@settings(max_examples=30)
@given(
    st.sampled_from(["poisson", "gamma", "mmpp", "constant", "closed"]),
    st.integers(0, 10**6), st.integers(1, 30), st.integers(0, 20),
)  # fmt: skip
def test_more_requests_begin_with_the_same(arrival, seed, num, more):
    workload = Workload(arrival=arrival, rate_rps=5.0, seed=seed, prompt_tokens_cv=0.5)
    try:
        longer, shorter = plan(workload, num + more), plan(workload, num)
    except AskError:  # its law: one seed in a thousand
        reject()
    assert longer[:num] == shorter


def test_a_closed_load_has_no_times():
    schedule = plan(Workload(concurrency=3, output_tokens_cv=0.5), 8, num_warmup=3)
    assert [r.due_s for r in schedule] == [0.0] * 11
    assert len({r.output_tokens for r in schedule}) > 5


def test_turns_follow_each_other_and_arrivals_are_of_conversations():
    workload = POISSON.replace(turns=3, prompt_tokens_cv=0.3)
    schedule = plan(workload, 10, num_warmup=2)
    times_s = arrival_times_s(workload, 12)
    assert [(r.session, r.turn) for r in schedule] == [(i // 3, i % 3) for i in range(36)]
    assert tuple(r.due_s for r in schedule if r.turn == 0) == times_s
    assert {r.due_s for r in schedule if r.turn} == {0.0}
    assert [r.phase for r in schedule[:7]] == ["warmup"] * 6 + ["measured"]


@pytest.mark.parametrize(
    "name", ["azure_2023_conv.csv", "burstgpt_3.csv", "mooncake_conversation.jsonl"]
)
def test_a_trace_is_replayed_as_it_was(name):
    trace = read_trace(DATA / name)
    schedule = plan(REPLAY, 10, num_warmup=2, trace=trace)
    assert tuple(r.due_s for r in schedule) == trace.times_s[:12]
    assert tuple((r.prompt_tokens, r.output_tokens) for r in schedule) == trace.lengths()[:12]
    assert tuple(r.prefix for r in schedule) == trace.prefixes[:12]
    assert [r.phase for r in schedule[:3]] == ["warmup", "warmup", "measured"]


def test_a_trace_is_replayed_at_another_rate():
    trace = read_trace(DATA / "azure_2023_conv.csv")
    schedule = plan(REPLAY.replace(rate_rps=0.5), 41, trace=trace)
    assert 40 / schedule[-1].due_s == pytest.approx(0.5)
    factor = trace.times_s[40] / schedule[-1].due_s
    assert [r.due_s * factor for r in schedule] == pytest.approx(trace.times_s[:41])


def test_other_arrivals_take_their_lengths_from_a_trace():
    trace = read_trace(DATA / "burstgpt_1.csv")
    schedule = plan(POISSON, 60, trace=trace)
    assert tuple(r.due_s for r in schedule) == arrival_times_s(POISSON, 60)
    assert {(r.prompt_tokens, r.output_tokens) for r in schedule} <= set(trace.lengths())
    assert len({r.prompt_tokens for r in schedule}) > 15


def test_each_prompt_of_a_dataset_comes_once_before_any_comes_again():
    schedule = plan(POISSON, 8, dataset=DATASET)
    assert {r.prompt for r in schedule[:4]} == {r.prompt for r in schedule[4:]} == {
        "p0", "p1", "p2", "p3"}  # fmt: skip
    for request in schedule:
        assert request.prompt_tokens == 0  # only a server can count them
        assert request.output_tokens == (int(request.prompt[1:]) or 128)
    assert [r.prompt for r in plan(POISSON, 3, dataset=DATASET)] == [
        r.prompt for r in schedule[:3]]  # fmt: skip


def test_turns_of_a_dataset_are_the_users():
    schedule = plan(POISSON.replace(turns=5), 4, dataset=DATASET)
    assert [r.turn for r in schedule] == [0, 1] * 4
    assert [r.prompt[1:] for r in schedule[::2]] == [r.prompt[1:] for r in schedule[1::2]]
    assert {r.prompt[0] for r in schedule if r.turn} == {"q"}


@pytest.mark.parametrize("more", [{}, {"turns": 2}, {"arrival": "closed"}])
def test_json_lines_keep_it_all(more):
    schedule = plan(POISSON.replace(**more), 9, num_warmup=1, num_drain=2, dataset=DATASET)
    data = to_jsonl(schedule)
    assert data.count(b"\n") == len(schedule)
    assert parse(data) == schedule
    trace = read_trace(DATA / "mooncake_conversation.jsonl")
    replay = plan(REPLAY, 40, trace=trace)
    assert parse(to_jsonl(replay)) == replay


def test_a_broken_schedule():
    with pytest.raises(EvidenceBroken, match="cannot be read"):
        parse(to_jsonl(plan(POISSON, 2))[:-9])


@pytest.mark.parametrize(
    ("workload", "counts", "more", "message"),
    [
        (POISSON, (0, 0, 0), {}, "at least 1 measured"),
        (POISSON, (1, -1, 0), {}, "cannot be planned"),
        (POISSON, (1, 0, -1), {}, "cannot be planned"),
        (POISSON.replace(turns=0), (1, 0, 0), {}, "at least 1 turn"),
        (POISSON.replace(think_time_s=-1.0), (1, 0, 0), {}, "0 s on"),
        (POISSON.replace(prefix_hit_share=1.5), (1, 0, 0), {}, "give 0 to 1"),
        (POISSON.replace(rate_rps=0.0), (1, 0, 0), {}, "above 0"),
        (POISSON, (1, 0, 0), {"dataset": ()}, "no prompts"),
        (Workload(concurrency=0), (1, 0, 0), {}, "concurrency is 0"),
        (REPLAY, (1, 0, 0), {}, "no trace is given"),
        (REPLAY, (35, 2, 4), {"trace": "mooncake_conversation.jsonl"}, "40 requests .* 41"),
        (REPLAY.replace(turns=2), (1, 0, 0), {"trace": "burstgpt_3.csv"}, "turns cannot be added"),
        (REPLAY.replace(rate_rps=-1.0), (2, 0, 0), {"trace": "burstgpt_3.csv"}, "above 0"),
    ],
)
def test_bad_asks(workload, counts, more, message):
    if "trace" in more:
        more = {"trace": read_trace(DATA / more["trace"])}
    with pytest.raises(AskError, match=message):
        plan(workload, counts[0], num_warmup=counts[1], num_drain=counts[2], **more)
