"""Saturation and drift on simulated queues whose utilisation is known."""

import random
from itertools import accumulate

import pytest

from neoserve.measure.backlog import backlog, drift
from neoserve.schema.trial import RequestRow


def queue_rows(rng, utilisation, num, *, slots=1, gamma=1.0, warmup=20):
    """A queue of `slots` exponential servers of mean 1 s each, from empty."""
    rate = utilisation * slots
    due_s = list(accumulate(rng.gammavariate(gamma, 1 / gamma / rate) for _ in range(num + warmup)))
    free_s, rows = [0.0] * slots, []
    for i, due in enumerate(due_s):
        slot = min(range(slots), key=free_s.__getitem__)
        start = max(free_s[slot], due)
        free_s[slot] = start + rng.expovariate(1)
        rows.append(
            RequestRow(due_s=due, sent_s=due, first_token_s=start, last_token_s=free_s[slot],
                       phase="measured" if i >= warmup else "warmup")
        )  # fmt: skip
    return rows


def snapshot(rows, now_s):
    """What is known at a moment: later requests are unsent, unfinished ones have no end."""
    known = [row if row.due_s <= now_s else RequestRow(row.due_s, status="unsent") for row in rows]
    return [
        row.replace(last_token_s=None) if row.last_token_s and row.last_token_s > now_s else row
        for row in known
    ]


def first_alarm(rows):
    """After how many measured requests a look at every 15th says saturated; None: never."""
    measured = [row for row in rows if row.phase == "measured"]
    for num in range(30, len(measured) + 1, 15):
        now_s = measured[num - 1].due_s
        if backlog(snapshot(rows, now_s), now_s).is_saturated:
            return num
    return None


@pytest.mark.parametrize("slots", [1, 8])
def test_a_stable_queue_raises_no_alarm(slots):
    rng = random.Random(21)
    alarms = [first_alarm(queue_rows(rng, 0.7, 300, slots=slots)) for _ in range(150)]
    assert sum(alarm is not None for alarm in alarms) <= 4  # 1 % and 2 sd of 150


@pytest.mark.parametrize("slots", [1, 8])
def test_an_overloaded_queue_is_found_within_150_requests(slots):
    rng = random.Random(22)
    alarms = [first_alarm(queue_rows(rng, 1.3, 150, slots=slots)) for _ in range(100)]
    assert sum(alarm is not None for alarm in alarms) >= 84  # 90 % less 2 sd of 100


def test_bursts_are_not_saturation():
    rng = random.Random(23)
    alarms = [first_alarm(queue_rows(rng, 0.7, 300, gamma=0.3)) for _ in range(100)]
    assert sum(alarm is not None for alarm in alarms) <= 4


def test_growth_is_the_excess_of_arrivals():
    # 2 arrivals and 1 departure a second
    rows = [
        RequestRow(due_s=i / 2, sent_s=i / 2, first_token_s=i + 0.5, last_token_s=i + 1.0)
        for i in range(200)
    ]
    assert backlog(rows).growth_rps == pytest.approx(1.0, rel=0.02)
    assert backlog(rows).is_saturated
    assert backlog(rows[:1]).growth_rps is None


def test_failed_requests_leave_and_cancelled_ones_stay():
    refused = [RequestRow(due_s=float(i), sent_s=float(i), status="http") for i in range(100)]
    assert not backlog(refused).is_saturated
    assert backlog(refused).growth_rps == pytest.approx(0.0)
    hanging = [row.replace(status="cancelled") for row in refused]
    assert backlog(hanging).growth_rps == pytest.approx(1.0)
    assert backlog(hanging).is_saturated


def test_all_at_once_is_no_growth():
    rows = [RequestRow(due_s=0.0, sent_s=0.0, last_token_s=1.0) for _ in range(50)]
    assert backlog(rows) == (0.0, False)


def test_drift():
    rng = random.Random(24)
    assert drift([rng.random() for _ in range(100)]) is None
    assert drift([1.0] * 12) is None
    assert drift([rng.random() for _ in range(8)]) is None
    risen = [rng.random() + (i >= 50) for i in range(100)]
    assert "not steady" in drift(risen)


def test_drift_is_not_seen_in_a_stable_queue():
    rng = random.Random(25)
    seen = [drift([row.ttft_s for row in queue_rows(rng, 0.7, 300, warmup=50)]) for _ in range(60)]
    assert sum(sentence is not None for sentence in seen) <= 4
