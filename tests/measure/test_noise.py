import pytest

from neoserve.errors import AskError
from neoserve.measure.noise import noise_floor
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import ClientFacts, HostPrint, Quantile, Summary, Trial
from neoserve.schema.workload import Slo, Workload

NONE = Quantile(value=None, low=None, high=None)
HOST = HostPrint(
    cpu_model="", isa=(), physical_cores=1, logical_cpus=1, cpuset="0", quota_cores=None,
    memory_bytes=1, numa_nodes=1, kernel="", governor="", smt="", thp="",
    load_average_1min=0.0, clock_hz=0.0, versions={},
)  # fmt: skip
CLIENT = ClientFacts(
    loop="asyncio", workers=1, cpus="0", shares_cores=False, late_p99_s=0.0, late_max_s=0.0,
    lag_p99_s=0.0, cpu_s=0.0, engine_cpu_s=None, others_cores=None,
)  # fmt: skip


def summary(p50, p95=None):
    quantiles = (Quantile(value=v, low=None, high=None) for v in (p50, p95))
    p50, p95 = quantiles
    return Summary(num=1, num_failed=0, mean=None, p50=p50, p95=p95, p99=NONE)


def trial(ttft_p50, tokens_per_s, seed=0, **more):
    fields = dict(  # noqa: C408 - as the document is called
        workload=Workload(seed=seed), slo=Slo(), engine=EngineConfig(engine="x", version="1"),
        facts=None, host=HOST, client=CLIENT, salt="", schedule="", rows="", num_planned=1,
        num_judged=1, num_ok=1, failures={}, stop="planned", ttft_s=summary(ttft_p50, 1.0),
        tpot_s=summary(0.0, None), itl_s=summary(None), e2e_s=summary(None),
        queue_s=summary(None), dependence=1.0, steady_from_s=0.0, steady_until_s=1.0,
        output_tokens_per_s=tokens_per_s, input_tokens_per_s=None, offered_rps=None,
        served_rps=None, goodput_rps=None, backlog_growth_rps=None, saturated=False,
        load_limited=False, counters={}, cost=None, verdict="PASS", reasons=(), notes=(),
    )  # fmt: skip
    return Trial(**(fields | more))


def test_spread_of_repeats():
    floor = noise_floor([trial(0.9, 100.0, 1), trial(1.0, 102.0, 2), trial(1.1, 104.0, 3)])
    assert floor.num_trials == 3
    ttft = floor.spreads["ttft_p50"]
    assert (ttft.mean, ttft.range_share, ttft.sd_share) == pytest.approx((1.0, 0.2, 0.1))
    assert floor.spreads["ttft_p95"].range_share == 0.0
    assert floor.spreads["output_tokens_per_s"].sd_share == pytest.approx(2 / 102)
    assert floor.spreads["tpot_p50"].sd_share == 0.0
    assert "tpot_p95" not in floor.spreads  # no trial had one


@pytest.mark.parametrize(
    ("other", "match"),
    [
        ([], "show no noise"),
        ([trial(1.0, 1.0, verdict="VOID")], "VOID"),
        ([trial(1.0, 1.0, workload=Workload(prompt_tokens=9))], "differ in engine or workload"),
        ([trial(1.0, 1.0, engine=EngineConfig(engine="y", version="1"))], "differ"),
    ],
)
def test_what_are_no_repeats(other, match):
    with pytest.raises(AskError, match=match):
        noise_floor([trial(1.0, 1.0), *other])
