"""`neoserve selftest` through the command line."""

import pytest

SHORT = ("selftest", "--streams", "4", "--duration", "700ms", "--osl", "5", "--ttft", "60ms",
         "--itl", "10ms")  # fmt: skip


def test_the_document_of_a_trusted_client(cli):
    said = cli(*SHORT, "--limit", "1s", "--json")
    found = said.document
    assert said.code == 0
    assert found["schema"] == "neoserve/selftest/1"
    assert found["is_trusted"] is True
    assert (found["true_ttft_s"], found["true_itl_s"]) == (0.06, 0.01)
    assert (found["limit_s"], found["workers"]) == (1.0, 1)
    assert found["num_requests"] == round(0.7 * 4 / 0.1)  # an answer lasts 0.06 + 4 x 0.01 s
    assert found["num_chunks"] == 5 * found["num_requests"]
    assert "with 4 streams" in said.err


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_impossible_limit_is_not_met(cli, words):
    said = cli(*SHORT, "--limit", "1ns", *words)
    assert said.code == 1
    if words:
        assert said.document["is_trusted"] is False
    else:
        flat = " ".join(said.out.split())
        assert "The client is not to be trusted at this load: TTFT was read" in flat
        assert "140 chunks received, 0 lost" in flat


def test_several_processes(cli):
    found = cli(*SHORT, "--limit", "1s", "--workers", "2", "--json").document
    assert found["workers"] == 2
    assert found["receive_delay_s"] is None
    assert found["num_lost"] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--streams", "1"), "at least 2 streams"),
        (("--osl", "1"), "at least 2 streams of 2 tokens"),
        (("--ttft", "0s"), "latencies above 0"),
        (("--limit", "fast"), "--limit: duration 'fast' is not a number"),
        (("--streams", "1.5"), "--streams: count '1.5' is not a whole number"),
        (("--itl=-1ms",), "--itl: duration '-1ms' is negative"),
    ],
)
def test_bad_asks(cli, words, told):
    said = cli("selftest", *words)
    assert said.code == 2
    assert said.out == ""
    assert told in said.err
    assert "Traceback" not in said.err
