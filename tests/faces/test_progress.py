"""A running load as one line."""

import io
import sys

import pytest

from neoserve.faces import progress
from neoserve.faces.progress import Live, line_of
from neoserve.measure.crew import Board
from neoserve.measure.trial import Look
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Slo

TTFT = list(Slo.parse_text("ttft:p95<3s").targets)


def served(due_s, ttft_s=0.5, **more):
    fields = {"sent_s": due_s, "first_token_s": due_s + ttft_s, "last_token_s": due_s + ttft_s + 1,
              "output_tokens": 11}  # fmt: skip
    return RequestRow(due_s=due_s, **(fields | more))


def flying(due_s, **more):
    return RequestRow(due_s=due_s, sent_s=due_s, status="cancelled", **more)


def unsent(due_s, **more):
    return RequestRow(due_s=due_s, status="unsent", **more)


def look(rows, now_s, is_saturated=False):
    num = sum(row.phase == "measured" for row in rows)
    return Look(Board(rows, set(), now_s), num, None, is_saturated)


def line(rows, now_s, targets=TTFT, **more):
    return line_of(look(rows, now_s, **more), list(targets))


def test_while_it_warms_up():
    warm = [served(0.0, phase="warmup"), flying(1.0, phase="warmup"), unsent(2.0, phase="warmup")]
    assert line([*warm, unsent(3.0)], 1.5) == "warming up: 1 of 3 requests"
    assert line([*warm, flying(3.0)], 3.5) == "warming up: 1 of 3 requests"


def test_an_open_load_is_left_until_its_last_measured_request_is_due():
    rows = [served(0.0, phase="warmup"), *(served(i / 1) for i in range(4)), flying(4.0),
            flying(5.0), unsent(20.0), unsent(99.0, phase="drain")]  # fmt: skip
    assert line(rows, 8.0) == (
        "4/7 requests, 0.62/s, p95 TTFT 500 ms (limit 3.00 s), 2 in flight, 12.0 s left"
    )  # the first of the four ended 6.5 s ago
    assert line(rows, 25.0).endswith("0 s left")  # not a negative time


def test_failures_and_saturation_are_said():
    rows = [served(0.0), RequestRow(due_s=1.0, sent_s=1.0, status="http"), unsent(9.0)]
    assert line(rows, 4.0, is_saturated=True) == (
        "2/3 requests, 1 failed, 0.40/s, p95 TTFT 500 ms (limit 3.00 s), 0 in flight, 5.00 s left, "
        "saturated: the backlog grows"
    )


def test_nothing_served_has_no_latency():
    rows = [RequestRow(due_s=1.0, sent_s=1.0, status="connection"), unsent(2.0)]
    assert line(rows, 1.0).startswith("1/2 requests, 1 failed, 0/s, p95 TTFT unknown (limit")


def test_a_closed_load_is_left_at_its_pace_so_far():
    """4 of 10 requests took from 2 s to 10 s: the other 6 take 12 s more."""
    rows = [served(2.0), served(3.0), served(5.0), served(7.0), *[unsent(0.0)] * 6]
    assert line(rows, 10.0).endswith(", 12.0 s left")


def test_the_statistic_and_metric_are_those_of_the_slo():
    """TTFT 0.1 to 1.1 s; TPOT of every answer 1 s over 10 tokens."""
    rows = [served(0.0, ttft_s=i / 10) for i in range(1, 12)]
    targets = Slo.parse_text("ttft:p50<2s; tpot:mean<150ms; e2e:p99<9s").targets
    text = line([*rows, unsent(5.0)], 4.0, targets)
    assert "p50 TTFT 600 ms (limit 2.00 s)" in text
    assert "p95 TPOT 100 ms (limit 150 ms)" in text  # a mean has no tail: the usual percentile
    assert "p99 E2E 2.09 s (limit 9.00 s)" in text


def test_the_percentile_is_of_the_last_hundred_that_ended():
    slow = [served(i / 100, ttft_s=9.0) for i in range(50)]  # ended 10 s after they were due
    quick = [served(20 + i / 100, ttft_s=0.2) for i in range(100)]
    assert "p95 TTFT 200 ms" in line([*quick, *slow, unsent(60.0)], 30.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_a_line_is_written_over_and_cut_to_its_width(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "24")
    live = Live(Slo.parse_text("ttft:p95<3s"))
    live.show(look([served(0.0), unsent(9.0)], 2.0))
    live.show(look([unsent(9.0)], 2.0))
    first, second = sys.stderr.getvalue().split("\r")[1:]
    assert first == "1/2 requests, 2.0/s, p9"
    assert second == "warming up: 0 of 0 requ"
    assert "\n" not in sys.stderr.getvalue()
    live.say(sys.stderr.write, "a note\n")
    assert sys.stderr.getvalue().endswith("\na note\n")
    live.close()  # nothing is open any more
    assert sys.stderr.getvalue().count("\n") == 2


def test_in_a_log_a_line_comes_every_ten_seconds(monkeypatch):
    class Clock:
        now_s = 100.0

        def monotonic(self):
            return self.now_s

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    live = Live(Slo())
    for clock.now_s in (100.5, 109.9, 110.0, 110.5, 119.9, 120.1):
        live.show(look([served(0.0), unsent(9.0)], 2.0))
    live.close()
    lines = sys.stderr.getvalue().splitlines()
    assert lines == ["1/2 requests, 2.0/s, p95 TTFT 500 ms, 0 in flight, 7.00 s left"] * 2


@pytest.mark.parametrize("slo", ["", "quality<4%"])
def test_without_a_latency_in_the_slo_ttft_is_shown(monkeypatch, slo):
    monkeypatch.setattr(sys, "stderr", Terminal())
    Live(Slo.parse_text(slo)).show(look([served(0.0), unsent(9.0)], 2.0))
    assert "p95 TTFT 500 ms, 0 in flight" in sys.stderr.getvalue()
