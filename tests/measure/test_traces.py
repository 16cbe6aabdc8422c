import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.traces import BLOCK_TOKENS, read_trace, scaled

DATA = Path(__file__).parents[1] / "data" / "traces"
MOONCAKE = DATA / "mooncake_conversation.jsonl"


def test_azure_2023():
    """Seven digits of a second, CRLF."""
    trace = read_trace(DATA / "azure_2023_conv.csv")
    assert len(trace) == 60
    assert trace.lengths()[:2] == ((374, 44), (396, 109))
    assert trace.times_s[:3] == pytest.approx([0, 4.314579, 4.541877], abs=1e-9)
    assert (trace.note(), set(trace.sessions), set(trace.prefixes)) == ("", {""}, {()})


def test_azure_2024_has_a_zone():
    trace = read_trace(DATA / "azure_2024_code.csv")
    assert trace.lengths()[-1] == (4725, 8)
    assert trace.times_s[4] == pytest.approx(0.07396, abs=1e-9)
    assert trace.times_s[-1] == pytest.approx(7 * 86400 - 0.009930 - 0.070499, abs=1e-6)


def test_burstgpt_leaves_failed_requests_out_and_counts_them():
    trace = read_trace(DATA / "burstgpt_1.csv")
    assert (len(trace), trace.num_left_out) == (29, 1)
    assert trace.times_s[:3] == (0, 40, 113)
    assert trace.note() == "1 requests of burstgpt_1.csv that got no answer are not replayed"
    assert 0 not in trace.output_tokens


def test_burstgpt_with_sessions():
    """Its two more columns stand between the others."""
    trace = read_trace(DATA / "burstgpt_3.csv")
    assert (len(trace), trace.num_left_out) == (15, 1)
    assert trace.lengths()[0] == (384, 61)
    assert trace.sessions[2] == ""
    assert trace.sessions[1] == trace.sessions[5] == "313b905a-2252-45ca-bf14-46e87f6233dd"


def test_mooncake():
    trace = read_trace(MOONCAKE)
    assert len(trace) == 40
    assert trace.times_s[10] == 3.0
    assert trace.lengths()[-1] == (2038, 524)
    assert trace.prefixes[-1] == (0, 972, 973, 974)
    blocks = [math.ceil(tokens / BLOCK_TOKENS) for tokens in trace.prompt_tokens]
    assert [len(prefix) for prefix in trace.prefixes] == blocks


def test_first_rows_are_read_without_the_rest(tmp_path):
    path = tmp_path / "long.csv"
    path.write_bytes((DATA / "azure_2023_conv.csv").read_bytes() + b"nonsense\n")
    assert read_trace(path, 50) == read_trace(path, 60).first(50)
    with pytest.raises(AskError, match=r"long\.csv, line 62"):
        read_trace(path)


@given(st.floats(0.01, 1000))
def test_scaling_keeps_the_rhythm(rate_rps):
    trace = read_trace(MOONCAKE)
    faster = scaled(trace, rate_rps)
    assert faster.rate_rps() == pytest.approx(rate_rps)
    assert 39 / (faster.times_s[-1] - faster.times_s[0]) == pytest.approx(rate_rps)
    share = [t / trace.times_s[-1] for t in trace.times_s]
    assert [t / faster.times_s[-1] for t in faster.times_s] == pytest.approx(share)
    assert faster.lengths() == trace.lengths()


def test_what_cannot_be_scaled_or_cut():
    trace = read_trace(MOONCAKE)
    with pytest.raises(AskError, match="at one moment"):
        scaled(trace.first(10), 1.0)
    with pytest.raises(AskError, match="40 requests"):
        trace.first(41)
    with pytest.raises(AskError, match="above 0"):
        scaled(trace, 0)


def test_rows_are_brought_into_order(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                    "2024-05-10 00:00:02,2,1\n2024-05-10 00:00:00.5,1,1\n")  # fmt: skip
    assert read_trace(path).times_s == (0, 1.5)
    assert read_trace(path).prompt_tokens == (1, 2)


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: columns are ''; expected TIMESTAMP"),
        ("time,tokens\n1,2\n", "line 1: columns are 'time,tokens'; expected TIMESTAMP"),
        (AZURE + "2023-11-16 18:15:46,374,44\nyesterday,374,44\n", "line 3: TIMESTAMP is 'yest"),
        (AZURE + "2023-11-16 18:15:46,374,4.5\n", r"line 2: GeneratedTokens is '4\.5'; expected"),
        (AZURE + "2023-11-16 18:15:46,374\n", "line 2: GeneratedTokens is None; expected a whole"),
        (AZURE, "no request that was answered"),
        (BURST + "5,ChatGPT,0,0,0,Conversation log\n", "no request that was answered"),
        (BURST + "-5,ChatGPT,1,1,2,Conversation log\n", "line 2: Timestamp is '-5'"),
        (BURST + "nan,ChatGPT,1,1,2,Conversation log\n", "line 2: Timestamp is 'nan'"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2}\n{"x"', "line 2: not JSON"),
        ('{"timestamp": 1, "input_length": 5}\n', "line 1: 'output_length' is missing"),
        ('{"timestamp": 1, "input_length": -5, "output_length": 2}', "input_length is -5"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2, "hash_ids": ["a"]}', "hash_ids"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2, "hash_ids": 7}', "hash_ids"),
        ('{"timestamp": 1}\n[1]\n', "line 1"),
    ],
)
def test_bad_rows_are_named(tmp_path, text, message):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(AskError, match=message):
        read_trace(path)


def test_what_is_no_trace(tmp_path):
    with pytest.raises(AskError, match="cannot be read: No such file"):
        read_trace(tmp_path / "nowhere.csv")
    (tmp_path / "t").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AskError, match="no text file"):
        read_trace(tmp_path / "t")
