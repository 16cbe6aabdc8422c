"""How long a search will take: the search itself, on what the planner says."""

from __future__ import annotations

import pytest

from neoserve.schema.campaign import SearchPlan
from neoserve.schema.space import Candidate
from neoserve.tune.forecast import forecast


def plan_of(*predicted: float | None, **changes: object) -> SearchPlan:
    candidates = tuple(
        Candidate({"threads": str(i)} if i else {}, "predicted", rate)
        for i, rate in enumerate(predicted)
    )
    return SearchPlan(
        candidates=candidates, start_rps=2.0, rungs=(20, 50, 80), num_certify=200, num_seeds=2,
        num_finalists=1, start_s=7.0, tolerance=0.05,
    ).replace(**changes)  # fmt: skip


def test_the_defaults_alone_are_scouted_searched_and_certified() -> None:
    found = forecast(plan_of(5.0))
    jobs = found.by_purpose
    assert jobs["scout"] == 3  # 2, 4, and 8 which is above 5
    assert jobs["probe"] == jobs["settle"] == jobs["quality"] == 0
    assert jobs["certify"] == 2  # seeds
    assert jobs["refute"] == 1
    assert sum(jobs.values()) == found.num_jobs


def test_the_time_is_starts_and_requests_over_rates() -> None:
    """A climb that is met takes 50 requests, one that is not 30; ten percent are warm-up."""
    one = forecast(plan_of(5.0, start_s=0.0))
    slow = forecast(plan_of(5.0, start_s=100.0))
    assert slow.spent_s - one.spent_s == pytest.approx(3 * 100.0)  # a look and two proofs
    scouts_s = 1.1 * (20 / 2 + 20 / 4 + 20 / 8)
    assert one.spent_s > scouts_s
    # at ten times the rates everything takes a tenth
    fast = forecast(plan_of(50.0, start_rps=20.0, start_s=0.0))
    assert fast.num_jobs == one.num_jobs
    assert fast.spent_s == pytest.approx(one.spent_s / 10)


def test_what_is_predicted_to_be_slower_costs_a_look() -> None:
    alone, with_slower = forecast(plan_of(5.0)), forecast(plan_of(5.0, 2.0))
    assert with_slower.num_jobs == alone.num_jobs + 1
    assert with_slower.by_purpose["probe"] == 1
    # a start, and 20 requests just below what the defaults hold
    more_s = with_slower.spent_s - alone.spent_s
    assert 7 + 1.1 * 20 / 5 < more_s < 7 + 1.1 * 20 / (5 * 0.85)


def test_without_a_prediction_others_are_a_little_slower_than_the_defaults() -> None:
    unknown = forecast(plan_of(5.0, None, None))
    assert unknown.by_purpose["probe"] == 2
    assert unknown.by_purpose["climb"] == forecast(plan_of(5.0)).by_purpose["climb"]
    nothing = forecast(plan_of(None))
    assert nothing.by_purpose["scout"] == 3  # 2 and 4, twice the start, are held; 8 is not
    assert nothing.num_jobs == forecast(plan_of(4.0)).num_jobs


def test_what_is_predicted_to_be_better_is_searched_settled_and_certified() -> None:
    found = forecast(plan_of(5.0, 10.0)).by_purpose
    assert found["settle"] > 0
    assert found["certify"] == 4  # two configurations, two seeds


def test_guarded_ones_are_scored() -> None:
    plan = plan_of(5.0, 10.0, 2.0, guarded=(0, 1, 2))
    found = forecast(plan)
    assert found.by_purpose["quality"] == 2  # the slow one is rejected before
    free = forecast(plan.replace(guarded=()))
    assert found.spent_s >= free.spent_s + 2 * 30.0


def test_a_budget_shortens_it() -> None:
    many = [3.0 + i / 10 for i in range(30)]
    plan = plan_of(3.0, *many)
    free, short = forecast(plan), forecast(plan.replace(budget_trials=40))
    assert short.num_jobs < free.num_jobs
    assert short.num_jobs <= 50
    assert short.by_purpose["certify"] >= 2, "the proof is kept"


def test_it_ends_where_nothing_holds() -> None:
    found = forecast(plan_of(1e-6, 1e-6))
    assert found.num_jobs < 50
    assert found.by_purpose["certify"] == 0
