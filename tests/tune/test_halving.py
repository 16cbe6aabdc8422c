"""The search's decisions, in worlds whose capacities are known."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.schema.campaign import Job, Seen, Told
from neoserve.tune.conclude import conclude
from neoserve.tune.halving import next_job
from neoserve.tune.history import History
from tune.worlds import World, plan_of, searched


def test_the_pick_is_within_three_percent_of_the_best_in_nine_worlds_of_ten() -> None:
    regrets = []
    for seed in range(20):
        world = World.drawn(seed, 40)
        found = conclude(plan_of(40, seed=seed), searched(plan_of(40, seed=seed), world))
        regrets.append(1 - world.capacities[found.pick] / max(world.capacities))
    assert sum(regret <= 0.03 for regret in regrets) >= 18


def test_a_certified_rate_is_below_the_capacity_and_a_refuted_one_above() -> None:
    broken = refuted = 0
    for seed in range(20):
        world = World.drawn(seed, 12)
        found = conclude(plan_of(12, seed=seed), searched(plan_of(12, seed=seed), world))
        capacity = found.standings[found.pick].capacity
        assert capacity.certified_rps is not None
        broken += capacity.certified_rps > world.capacities[found.pick]
        refuted += (capacity.refuted_rps or 1e9) < world.capacities[found.pick]
    assert broken <= 3
    assert refuted <= 3


def test_the_gain_is_quoted_with_bounds_that_hold_the_truth() -> None:
    outside = 0
    for seed in range(20):
        world = World.drawn(seed, 12)
        found = conclude(plan_of(12, seed=seed), searched(plan_of(12, seed=seed), world))
        if found.pick == 0:
            continue
        truth = world.capacities[found.pick] / world.capacities[0]
        assert found.gain.ratio is not None
        assert found.gain.low is not None
        assert found.gain.high is not None
        outside += not found.gain.low <= truth <= found.gain.high
    assert outside <= 3


def test_a_slow_candidate_costs_one_start_and_few_requests() -> None:
    world = World(1, [5.0, 2.0])
    told = searched(plan_of(2), world)
    jobs = [t.job for t in told if t.job.candidate == 1]
    assert [job.purpose for job in jobs] == ["probe"]
    assert jobs[0].num_requests == 40


def test_few_requests_and_a_long_limit_do_not_pass_for_an_endless_capacity() -> None:
    """A server of 1.2/s answers 8 requests within 20 s however fast they come."""
    served_rps, limit_s = 1.2, 20.0
    plan = plan_of(1).replace(rungs=(8, 12, 16), start_rps=0.5, horizon_s=limit_s)
    told: list[Told] = []
    while (job := next_job(plan, told)) is not None and job.purpose in ("scout", "climb"):
        waits_s = [i / served_rps - i / job.rate_rps for i in range(job.num_requests)]
        misses = sum(wait_s > limit_s for wait_s in waits_s)
        verdict = "FAIL" if misses > 0.2 * len(waits_s) else "INCONCLUSIVE"
        seen = Seen(verdict=verdict, num=len(waits_s), num_misses=misses, share=0.1)
        told.append(Told(job, seen))
    limit_rps = History(plan, told).estimate_rps(0)
    assert limit_rps is not None
    assert served_rps <= limit_rps < 4 * served_rps
    assert max(t.job.rate_rps for t in told) < 8 * served_rps


def test_candidates_are_compared_on_the_same_requests() -> None:
    told = searched(plan_of(30), World.drawn(3, 30))
    by_visit = {}
    for t in told:
        if t.job.purpose in ("probe", "climb", "settle"):
            by_visit.setdefault(t.job.visit, set()).add(t.job.seed)
    assert all(len(seeds) == 1 for seeds in by_visit.values())
    proof = {t.job.seed for t in told if t.job.purpose in ("certify", "refute")}
    assert not proof & set.union(*by_visit.values()), "the proof has requests of its own"


def test_winner_and_baseline_are_certified_in_turns() -> None:
    told = searched(plan_of(12), World.drawn(5, 12))
    order = [t.job.candidate for t in told if t.job.purpose == "certify"]
    visits = list(dict.fromkeys((t.job.visit, t.job.candidate) for t in told
                                if t.job.purpose == "certify"))  # fmt: skip
    winner = next(c for c in order if c)
    assert [c for _, c in visits] == [0, winner, winner, 0, 0, winner]


def test_nothing_is_measured_twice() -> None:
    told = searched(plan_of(40), World.drawn(7, 40))
    assert max(Counter(t.job for t in told).values()) == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_any_beginning_of_a_history_leads_to_the_same_end(seed: int, data: st.DataObject) -> None:
    plan, world = plan_of(10, seed=seed), World.drawn(seed, 10)
    world.crashes, world.breaches = {seed % 7 + 1}, {seed % 5 + 2}
    plan = plan.replace(guarded=tuple(range(10)))
    whole = searched(plan, world)
    cut = data.draw(st.integers(0, len(whole)))
    assert searched(plan, world, whole[:cut]) == whole


def test_a_crash_is_learned_from_and_never_picked() -> None:
    world = World.drawn(2, 20)
    world.crashes = {i for i in range(20) if plan_of(20).candidates[i].knobs.get("a") == "1"}
    told = searched(plan_of(20), world)
    assert not [t for t in told if t.job.candidate in world.crashes and t.job.purpose != "probe"]
    order = list(dict.fromkeys(t.job.candidate for t in told))
    assert conclude(plan_of(20), told).pick not in world.crashes
    last = order[-len(world.crashes) + 2 :]
    assert sum(c in world.crashes for c in last) > len(last) / 2, "like ones go to the back"
    states = {s.candidate.id: (s.state, s.reason) for s in conclude(plan_of(20), told).standings}
    assert states[plan_of(20).candidates[1].id] == ("crashed", "out of memory")


def test_a_search_says_the_same_when_it_is_over_but_for_what_it_has_not_decided() -> None:
    plan = plan_of(12)
    told = searched(plan, World.drawn(3, 12))
    first = next(i for i, t in enumerate(told) if t.job.candidate != told[0].job.candidate)
    for num in (1, first, len(told) // 2, len(told)):
        over = conclude(plan, told[:num])
        now = conclude(plan, told[:num], is_over=False)
        for then, so_far in zip(over.standings, now.standings, strict=True):
            assert then.capacity == so_far.capacity
            allowed = {"pick": {"leads", "begun", "rejected"}, "untried": {"waits"},
                       "rejected": {"rejected", "begun"}}  # fmt: skip
            assert so_far.state in allowed.get(then.state, {then.state})
        leading = [s for s in now.standings if s.state == "leads"]
        assert len(leading) == (History(plan, told[:num]).leader() is not None)


def test_a_breach_of_quality_is_never_picked_and_baseline_is_scored_first() -> None:
    world = World(4, [5.0, 9.0, 7.0])
    world.breaches = {1}
    plan = plan_of(3, guarded=(0, 1, 2))
    told = searched(plan, world)
    found = conclude(plan, told)
    assert found.pick == 2
    assert found.standings[1].state == "quality"
    assert "20% worse" in found.standings[1].reason
    checks = [t.job.candidate for t in told if t.job.purpose == "quality"]
    assert checks == [0, 1, 2]
    assert not [t for t in told if t.job.candidate == 1 and t.job.purpose == "climb"]


def test_what_cannot_be_measured_is_not_picked() -> None:
    told = searched(plan_of(3), lambda job: Seen(verdict="VOID", spent_s=1.0)
                    if job.candidate == 1 else World(1, [5.0, 9.0, 6.0])(job))  # fmt: skip
    found = conclude(plan_of(3), told)
    assert found.standings[1].state == "void"
    assert found.pick == 2


def test_equal_configurations_are_a_tie_and_the_defaults_stay() -> None:
    plan = plan_of(4)
    told = searched(plan, World(6, [5.0, 5.02, 4.97, 5.05]))
    found = conclude(plan, told)
    assert found.pick == 0
    assert found.gain.ratio is None
    assert "differ by less" in found.gain.reason or "the best" in found.gain.reason
    assert {s.state for s in found.standings[1:]} <= {"tie", "finalist", "slower", "rejected"}


def test_an_slo_that_nothing_keeps_is_said() -> None:
    plan = plan_of(3)
    missed = Seen(verdict="FAIL", num=20, num_misses=20, share=0.05, spent_s=1.0)
    told = searched(plan, lambda _: missed)
    found = conclude(plan, told)
    assert found.pick == 0
    assert found.gain.reason == "nothing that was tried keeps the SLO at any rate"


def test_defaults_that_do_not_start_do_not_end_the_search() -> None:
    world = World(6, [5.0, 4.0, 6.0])
    world.crashes = {0}
    found = conclude(plan_of(3), searched(plan_of(3), world))
    assert found.pick == 2
    assert found.gain.ratio is None
    assert "out of memory" in found.gain.reason


@pytest.mark.parametrize(
    ("budget", "name"),
    [({"budget_s": 2000.0}, "time"), ({"budget_trials": 40}, "trials"),
     ({"budget_usd": 1.0, "usd_per_hour": 2.0}, "money")],
)  # fmt: skip
def test_a_budget_ends_the_search_with_a_proof(budget: dict[str, float], name: str) -> None:
    plan = plan_of(200, **budget)
    told = searched(plan, World.drawn(8, 200))
    history = History(plan, told)
    assert history.used_share() < 1.25
    found = conclude(plan, told)
    assert found.ended_by == name
    assert found.standings[found.pick].capacity.certified_rps is not None
    assert any(s.state == "untried" for s in found.standings)


def test_no_proof_is_longer_than_the_whole_budget() -> None:
    """Wide tolerances step far down after each miss: 0.1/s, 0.03/s, then an hour a load."""
    plan = plan_of(1, budget_s=40.0, tolerance=0.3, rungs=(8, 12, 16), num_certify=16, num_seeds=1)
    held = World(3, [0.5])

    def answer(job: Job) -> Seen:
        seen = held(job)
        return seen.replace(verdict="INCONCLUSIVE", share=0.5, num_misses=seen.num) if (
            job.purpose == "certify"
        ) else seen

    proofs = [t.job for t in searched(plan, answer) if t.job.visit >= 10]
    assert proofs
    assert all(job.num_requests / job.rate_rps <= 40.0 for job in proofs)


def test_hosts_that_work_side_by_side_never_get_the_same_candidate() -> None:
    plan, world = plan_of(20), World.drawn(9, 20)
    told: list[Told] = []
    running: list[Job] = []
    most = 0
    while True:
        while len(running) < 4 and (job := next_job(plan, told, running)) is not None:
            assert job.candidate not in {other.candidate for other in running}
            running.append(job)
        most = max(most, len(running))
        if not running:
            break
        ended = running.pop(0)
        told.append(Told(ended, world(ended)))
    assert most == 4
    alone = conclude(plan, searched(plan, World.drawn(9, 20)))
    together = conclude(plan, told)
    best = max(world.capacities)
    assert world.capacities[together.pick] >= 0.97 * best
    assert world.capacities[alone.pick] >= 0.97 * best


def test_where_nothing_runs_the_search_ends_soon() -> None:
    world = World(1, [5.0] * 20)
    world.crashes = set(range(20))
    told = searched(plan_of(20), world)
    assert len(told) == 3
    assert conclude(plan_of(20), told).standings[0].state == "crashed"
