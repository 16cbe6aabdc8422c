import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.measure.stream import read_answer
from neoserve.schema.trial import RequestRow

ROW = RequestRow(due_s=0.0, sent_s=0.1)


def event(**data):
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def chat(text, **more):
    return event(choices=[{"delta": {"content": text}, "finish_reason": None} | more])


USAGE = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 3})
WHOLE = [
    (1.0, event(choices=[{"delta": {"role": "assistant", "content": None}}])),
    (2.0, chat("a")),
    (3.0, chat("b")),
    (4.0, event(choices=[{"delta": {}, "finish_reason": "length"}])),
    (5.0, USAGE + b"data: [DONE]\n\n"),
]


def test_a_whole_answer():
    row = read_answer(ROW, WHOLE)
    assert row == RequestRow(
        due_s=0.0, sent_s=0.1, first_token_s=2.0, last_token_s=4.0,
        prompt_tokens=7, output_tokens=3,
        itl_s=(1.0,),
    )
    assert (row.ttft_s, row.e2e_s, row.tpot_s) == (2.0, 4.0, 1.0)


@given(st.lists(st.integers(0, 400), max_size=12))
def test_where_the_network_cuts_does_not_matter(cuts):
    data = b"".join(chunk for _, chunk in WHOLE)
    edges = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    chunks = [(9.0, data[a:b]) for a, b in itertools.pairwise(edges)]
    row = read_answer(ROW, chunks)
    assert (row.status, row.prompt_tokens, row.output_tokens) == ("ok", 7, 3)


def test_a_line_counts_from_when_its_end_arrived():
    line = chat("a")
    row = read_answer(ROW, [(1.0, line[:10]), (2.0, line[10:]), *WHOLE[3:]])
    assert row.first_token_s == 2.0


@pytest.mark.parametrize("channel", ["reasoning_content", "reasoning", "tool_calls"])
def test_the_first_token_may_come_on_any_channel(channel):
    thinking = event(choices=[{"delta": {channel: "x"}}])
    assert read_answer(ROW, [(1.0, thinking), *WHOLE[1:]]).first_token_s == 1.0


def test_completions_carry_text():
    chunks = [
        (1.0, event(choices=[{"text": "a"}])),
        (2.0, event(choices=[{"text": "b"}])),
        *WHOLE[3:],
    ]
    assert read_answer(ROW, chunks).first_token_s == 1.0


def test_crlf_comments_and_empty_lines_are_fine():
    data = b": ping\r\n\r\n" + b"".join(chunk for _, chunk in WHOLE).replace(b"\n", b"\r\n")
    assert read_answer(ROW, [(1.0, data)]).status == "ok"


@pytest.mark.parametrize(
    ("chunks", "status", "reason"),
    [
        (WHOLE[:3], "truncated", "stopped before"),
        ([], "truncated", "stopped before"),
        ([*WHOLE[:3], (4.0, b"data: {oops\n")], "truncated", "not a JSON object"),
        ([*WHOLE[:3], (4.0, b"data: [1]")], "truncated", "not a JSON object"),
        ([(1.0, b"\xff\xfe" * 30)], "truncated", "stopped before"),
        ([(1.0, b"data: \xff\xfe\n")], "truncated", "not a JSON object"),
        ([*WHOLE[:4], (5.0, b"data: [DONE]\n\n")], "server", "no usage"),
        ([WHOLE[0], WHOLE[3], WHOLE[4]], "server", "no token"),
        ([(1.0, event(error={"message": "out of memory"}))], "server", "out of memory"),
        ([(1.0, event(error="plain"))], "server", "plain"),
        ([(1.0, b'error: {"code":500}\n\n')], "server", "500"),
        ([(1.0, event(choices="none", usage=[]))], "truncated", "stopped before"),
    ],
)
def test_bad_streams_are_rows_with_a_reason(chunks, status, reason):
    row = read_answer(ROW, chunks)
    assert row.status == status
    assert reason in row.error


def test_what_was_seen_before_the_break_is_kept():
    row = read_answer(ROW, [*WHOLE[:3], (4.0, b"data: {oops\n")])
    assert (row.first_token_s, row.last_token_s) == (2.0, 3.0)


def test_a_usage_of_foreign_types_counts_nothing():
    odd = event(choices=[], usage={"prompt_tokens": "7", "completion_tokens": -1})
    row = read_answer(ROW, [*WHOLE[:4], (5.0, odd)])
    assert (row.prompt_tokens, row.output_tokens) == (0, 0)
