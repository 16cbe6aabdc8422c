import pytest

from evidence.sample import trial as sample
from neoserve.errors import AskError
from neoserve.measure.noise import noise_floor
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import Quantile, Summary, Trial
from neoserve.schema.workload import Workload

NONE = Quantile(value=None, low=None, high=None)


def summary(p50, p95=None):
    p50, p95 = (Quantile(value=v, low=None, high=None) for v in (p50, p95))
    return Summary(num=1, num_failed=0, mean=None, p50=p50, p95=p95, p99=NONE)


def trial(ttft_p50, tokens_per_s, seed=0, **more) -> Trial:
    fields = {
        "workload": Workload(seed=seed),
        "ttft_s": summary(ttft_p50, 1.0),
        "tpot_s": summary(0.0),
        "output_tokens_per_s": tokens_per_s,
    }
    return sample(**(fields | more))


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
