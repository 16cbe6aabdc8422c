"""The scripted engine against what is known of queues, and its trials against the judge's own."""

import itertools
import random

import pytest
from scripted_engine import SLO, World, grid
from scripted_load import load, play
from scripted_queue import Engine, Noise
from scripted_truth import excess, find_capacity_rps, miss_shares

from neoserve.errors import EngineFailed
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.measure.backlog import backlog
from neoserve.measure.figures import recompute
from neoserve.measure.verdict import judge
from neoserve.schema.campaign import Job, SearchPlan, Told

from .scripted import ScriptedExecutor

LAW = World(0).law(grid()[0].id)
ONE_SLOT = LAW._replace(slots=1, budget=1000)


def serve(law, due_s, prompts, outputs):
    engine = Engine(law, due_s, prompts, outputs, Noise.none())
    *_, end_s = engine.run()
    assert end_s == max(engine.last_s)
    return engine


def test_one_slot_waits_as_lindley_says():
    rng = random.Random(1)
    due_s = list(itertools.accumulate(rng.expovariate(0.8) for _ in range(300)))
    outputs = [rng.randint(1, 30) for _ in due_s]
    prompts = [rng.randint(1, 300) for _ in due_s]
    engine = serve(ONE_SLOT, due_s, prompts, outputs)
    free_s, waits = 0.0, 0
    for i, due in enumerate(due_s):
        begin_s = max(due, free_s)
        prefill_s = ONE_SLOT.base_s + ONE_SLOT.prompt_token_s * prompts[i]
        step_s = ONE_SLOT.base_s + ONE_SLOT.active_s
        waits += begin_s > due
        assert engine.first_s[i] == pytest.approx(begin_s + prefill_s, abs=1e-9)
        free_s = begin_s + prefill_s + (outputs[i] - 1) * step_s
        assert engine.last_s[i] == pytest.approx(free_s, abs=1e-9)
    assert 50 < waits < 299


def test_a_full_batch_shares_each_step():
    """Four requests that come at once take one prompt step and the rest together."""
    law = LAW._replace(slots=4, budget=1000, knee=2.0)
    engine = serve(law, [0.0] * 4, [10] * 4, [5] * 4)
    prefill_s = law.base_s + 40 * law.prompt_token_s
    step_s = law.base_s + 4 * law.active_s + 4 * law.crowd_s  # two above the knee, squared
    assert engine.first_s == pytest.approx([prefill_s] * 4)
    assert engine.last_s == pytest.approx([prefill_s + 4 * step_s] * 4)


def test_a_prompt_longer_than_the_budget_takes_more_steps():
    law = LAW._replace(budget=100)
    engine = serve(law, [1.0], [250], [1])
    assert engine.first_s[0] == pytest.approx(1 + 3 * law.base_s + 250 * law.prompt_token_s)


def job(rate_rps, num=150, seed=1, **more):
    return Job(0, "climb", rate_rps, num, seed, **more)


@pytest.mark.parametrize("rate_rps", [0.6, 1.2, 1.6, 4.0])
def test_a_load_is_judged_as_a_trial_is(rate_rps):
    found = load(World(0), grid()[0], job(rate_rps), 0.0)
    assert found.judgement == judge(found.rows, SLO, 150, 0.05)
    assert found.saturated == backlog(found.rows).is_saturated
    assert load(World(0), grid()[0], job(rate_rps), 0.0) == found


def test_what_is_hopeless_ends_early():
    found = load(World(0), grid()[0], job(6.0), 0.0)
    assert found.stop in ("decided", "saturated")
    assert found.judgement.verdict == "FAIL"
    assert any(row.status == "unsent" for row in found.rows)


def test_a_start_a_seed_and_the_hour_each_change_a_load():
    world, point = World(3), grid()[0]
    base = load(world, point, job(1.0, 40), 0.0)
    for other in (
        load(world, point, job(1.0, 40, visit=1), 0.0),
        load(world, point, job(1.0, 40, seed=2), 0.0),
        load(world, point, job(1.0, 40), 1200.0),
        load(World(4), point, job(1.0, 40), 0.0),
    ):
        assert other.rows != base.rows
    assert abs(world.drift(0.0) - world.drift(3600.0)) < 1e-9


def test_compared_candidates_get_the_same_requests():
    one, other = (load(World(0), c, job(1.0, 40), 0.0).schedule for c in grid()[:2])
    assert one == other
    faster = load(World(0), grid()[0], job(2.0, 40), 0.0).schedule
    assert [p.due_s for p in faster] == pytest.approx([p.due_s / 2 for p in one])


def test_the_capacity_is_where_a_long_load_just_keeps_its_limits():
    """Other requests, as many: both are good for about 3 %."""
    law, num = World(0).law(grid()[0].id), 8_000
    capacity = find_capacity_rps(law, num)
    assert excess(law, 0.93 * capacity, num, seed=7) < 1
    assert excess(law, 1.07 * capacity, num, seed=7) > 1
    assert max(miss_shares(law, 0.3 * capacity, 4000)) < 0.01


def test_crashes_are_told_with_their_reason():
    world, candidates = World(0), grid()
    bad = next(i for i, c in enumerate(candidates)
               if c.knobs.get("slots") == "8" and c.knobs.get("kv") == "large"
               and "precision" not in c.knobs)  # fmt: skip
    seen = play(world, candidates, [], Job(bad, "probe", 1.0, 40))
    assert "out of memory" in seen.crash
    assert 10 <= seen.spent_s <= 30  # half of a start
    assert seen.num == 0


def test_a_start_that_failed_by_chance_may_succeed_again():
    world, point = World(0), grid()[0]
    visit = next(v for v in range(2000) if world.crash(point, v))
    assert world.crash(point, visit, 1) == ""
    assert sum(bool(world.crash(point, v)) for v in range(2000)) == pytest.approx(20, abs=15)


def test_a_server_starts_once_a_visit():
    world, candidates = World(0), grid()
    first = Told(job(1.0, 40), play(world, candidates, [], job(1.0, 40)))
    again = play(world, candidates, [first], job(1.0, 40, seed=2))
    fresh = play(world, candidates, [first], job(1.0, 40, seed=2, visit=1))
    assert fresh.spent_s > again.spent_s + 15


def run_at(path):
    return Run.create(path, "scripted", seed=0, versions={})


def test_the_executor_leaves_a_run_whose_figures_can_be_computed_again(tmp_path):
    campaign = pytest.importorskip("neoserve.tune.campaign")
    world, candidates, told = World(0), grid(), []
    plan = SearchPlan(candidates=candidates, start_rps=1.0)
    run = run_at(tmp_path / "run")
    executor = ScriptedExecutor(run, world, candidates, told)
    for asked in (job(1.0, 40), job(6.0, 40), job(1.1, 40, visit=1)):
        expected = play(world, candidates, told, asked)

        def about(observed, asked=asked):
            told.append(Told(asked, campaign.seen_of(observed, executor.spent_s())))
            return {"told": told[-1].to_data()}

        executor.load(plan.candidates[asked.candidate], asked, about)
        assert told[-1].seen == expected
    assert verify_run(tmp_path / "run", recompute=recompute).num_recomputed == 3
    assert campaign.told_in(run.entries()) == told


def test_the_executor_raises_what_the_engine_said(tmp_path):
    world, candidates = World(0), grid()
    run = run_at(tmp_path / "run")
    executor = ScriptedExecutor(run, world, candidates, [])
    bad = next(c for c in candidates if world.crash(c))
    with pytest.raises(EngineFailed, match=r"out of memory|assertion"):
        executor.load(bad, job(1.0, 40), lambda _: {})
    assert 10 <= executor.spent_s() <= 30
    assert executor.spent_s() == 0


def test_quality_of_the_coarse_precision_is_as_the_world_says(tmp_path):
    check = pytest.importorskip("neoserve.tune.guard").check
    coarse = next(c for c in grid() if c.knobs == {"precision": "int8"})
    verdicts = set()
    for seed in range(6):
        world = World(seed)
        executor = ScriptedExecutor(run_at(tmp_path / str(seed)), world, grid(), [])
        found = check(executor.score(grid()[0]), executor.score(coarse), 0.04)
        assert (found.verdict == "PASS") == world.keeps_quality(coarse)
        change = 0.01 if world.keeps_quality(coarse) else 0.09
        assert found.change_share == pytest.approx(change, rel=1e-6)
        verdicts.add(found.verdict)
    assert verdicts == {"PASS", "FAIL"}


def test_worlds_differ_and_none_is_hopeless():
    bests = set()
    for seed in range(20):
        world = World(seed)
        able = [c for c in grid() if not world.crash(c) and world.keeps_quality(c)]
        assert grid()[0] in able
        assert 40 <= len(able) <= 132
        bests.add(round(world.law(able[-1].id).base_s, 9))
    assert len(bests) == 20
    assert len(grid()) == 144
