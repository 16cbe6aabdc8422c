"""What a load on a server of known latencies says of the client."""

import pytest

from neoserve.errors import AskError
from neoserve.measure.crew import Ran
from neoserve.measure.selftest import Truth, judge_client, selftest, spread
from neoserve.measure.wire import Answer
from neoserve.schema.trial import RequestRow

TRUTH = Truth(streams=10, ttft_s=0.1, itl_s=0.02, output_tokens=3)


def row(due_s, error_s=0.0, num_gaps=2, **more):
    """An answer whose first token is stamped `error_s` after it was written."""
    first_s = due_s + TRUTH.ttft_s + error_s
    fields = {
        "sent_s": due_s, "first_token_s": first_s, "last_token_s": first_s + 0.04,
        "output_tokens": 3, "itl_s": (0.02,) * num_gaps,
    }  # fmt: skip
    return RequestRow(due_s=due_s, **(fields | more))


def answer(written_s, delay_s=0.0, late_s=0.0):
    """Three chunks, 20 ms apart on the server's clock, each stamped `delay_s` later by us."""
    raw = [
        (at_s + delay_s, b'data: {"written_s":%.6f,"late_s":%.6f}\n\n' % (at_s, late_s))
        for at_s in (written_s, written_s + 0.02, written_s + 0.04)
    ]
    return Answer(status=200, raw=raw)


def ran(rows, cpu_s=0.5):
    return Ran(rows, "planned", [], cpu_s, "asyncio")


def judged(rows, answers=None, limit_s=0.005, workers=1):
    return judge_client(ran(rows), TRUTH, answers or {}, workers, limit_s)


def test_a_perfect_client():
    rows = [row(i / 10) for i in range(11)]
    found = judged(rows, {i: answer(5.0 + i) for i in range(11)})
    assert found.is_trusted
    assert found.ttft_error_s.mean_s == pytest.approx(0, abs=1e-9)
    assert found.itl_error_s.p99_s == pytest.approx(0, abs=1e-9)
    assert (found.num_requests, found.num_failed) == (11, 0)
    assert (found.num_chunks, found.num_lost) == (33, 0)
    assert found.chunks_per_s == pytest.approx(33)  # 11 answers of 3 in a second
    assert found.client_cpu_s_per_chunk == pytest.approx(0.5 / 33)


def test_the_servers_own_lateness_is_not_the_clients_error():
    """The server wrote 8 ms late, and said so; the client stamped 2 ms after the write."""
    rows = [row(i / 10, error_s=0.010) for i in range(10)]
    found = judged(rows, {i: answer(i / 1, delay_s=0.002, late_s=0.008) for i in range(10)})
    assert found.ttft_error_s.mean_s == pytest.approx(0.002)
    assert found.server_late_s.p95_s == pytest.approx(0.008)
    assert found.receive_delay_s.p99_s == pytest.approx(0.002)
    assert found.is_trusted
    assert "2.00 ms too long on average, within 5.00 ms" in found.reason


def test_without_raw_answers_the_whole_difference_is_the_clients():
    found = judged([row(i / 10, error_s=0.010) for i in range(10)], workers=2)
    assert found.ttft_error_s.mean_s == pytest.approx(0.010)
    assert (found.receive_delay_s, found.server_late_s, found.workers) == (None, None, 2)
    assert not found.is_trusted
    assert "TTFT was read 10.0 ms too long on average, more than 5.00 ms" in found.reason


def test_a_client_that_reads_too_little_is_not_trusted_either():
    found = judged([row(i / 10, error_s=-0.010) for i in range(10)])
    assert found.ttft_error_s.mean_s == pytest.approx(-0.010)
    assert not found.is_trusted


def test_reading_too_little_is_said_in_readable_units():
    reason = judged([row(i / 10, error_s=-0.010) for i in range(10)]).reason
    assert "10.0 ms" in reason


def test_what_is_lost_is_counted_and_costs_the_trust():
    rows = [row(0.0), row(0.5, num_gaps=1), row(1.0, status="timeout"), row(1.5, num_gaps=0)]
    found = judged(rows)
    assert (found.num_requests, found.num_failed) == (4, 1)
    assert (found.num_chunks, found.num_lost) == (3 + 2 + 1, 1 + 2)
    assert not found.is_trusted
    assert found.reason == "3 chunks and 1 requests were lost"


def test_warm_up_and_drain_are_not_the_clients_figures():
    rows = [row(0.0, error_s=1.0, phase="warmup"), row(1.0), row(2.0),
            row(3.0, error_s=1.0, phase="drain")]  # fmt: skip
    found = judged(rows)
    assert found.num_requests == 2
    assert found.ttft_error_s.mean_s == pytest.approx(0, abs=1e-9)
    assert found.chunks_per_s == pytest.approx(6)  # two answers of 3 within a second
    assert found.client_cpu_s_per_chunk == pytest.approx(0.5 / 12)  # all of them cost CPU


def test_a_host_that_serves_nothing_is_a_clear_refusal():
    with pytest.raises(AskError, match="served nothing"):
        judged([row(0.0, status="connection"), row(1.0, status="timeout")])


def test_spread_is_of_the_sample():
    found = spread([i / 100 for i in range(101)])  # 0, 10 ms, ... 1 s
    assert (found.mean_s, found.p95_s, found.p99_s) == pytest.approx((0.5, 0.95, 0.99))


def test_the_rate_keeps_so_many_streams_in_flight():
    """Little's law: an answer lasts 0.1 + 2 x 0.02 s."""
    assert TRUTH.rate_rps * 0.14 == pytest.approx(10)
    assert Truth(1, 2.0, 1.0, 2).rate_rps == pytest.approx(1 / 3)


@pytest.mark.parametrize("truth", [Truth(streams=1), Truth(output_tokens=1), Truth(ttft_s=0.0),
                                   Truth(itl_s=0.0)])  # fmt: skip
def test_loads_that_measure_nothing_are_refused(tmp_path, truth):
    with pytest.raises(AskError, match="at least 2 streams of 2 tokens"):
        selftest(tmp_path / "log", truth)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_real_load(tmp_path, workers):
    boards = []
    truth = Truth(streams=4, ttft_s=0.05, itl_s=0.01, output_tokens=10)
    found = selftest(
        tmp_path / "log", truth, duration_s=0.8, workers=workers, limit_s=0.5,
        on_tick=boards.append,
    )  # fmt: skip
    assert found.is_trusted, found.reason
    assert found.num_requests == round(0.8 * 4 / 0.14)
    assert (found.num_failed, found.num_lost) == (0, 0)
    assert found.num_chunks == 10 * found.num_requests
    assert found.chunks_per_s == pytest.approx(10 * 4 / 0.14, rel=0.1)
    assert (found.receive_delay_s is None) == (workers == 2)
    if workers == 1:
        assert 0 < found.receive_delay_s.mean_s < 0.5
        assert abs(found.server_late_s.mean_s) < 0.5
    assert found.client_cpu_s_per_chunk > 0
    assert boards
    assert "ready at" in (tmp_path / "log").read_text()


def test_no_process_at_all_is_refused(tmp_path):
    with pytest.raises(AskError):
        selftest(tmp_path / "log", Truth(streams=2), duration_s=0.1, workers=0)
