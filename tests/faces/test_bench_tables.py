"""What `neoserve bench` prints, of trials whose figures are given."""

import re

import pytest

from evidence.sample import CLIENT, trial
from neoserve.faces.bench_tables import (
    client_notes,
    conclusion,
    latencies,
    max_rate_sentence,
    noise,
    probes,
    rates,
    repeats,
    sentence,
    show_bench,
    show_selftest,
)
from neoserve.schema.bench import Bench, Pooled
from neoserve.schema.capacity import MaxRate, Probe
from neoserve.schema.selftest import SelfTest
from neoserve.schema.selftest import Spread as ErrorSpread
from neoserve.schema.trial import NoiseFloor, Quantile, Spread, Summary, TrialCost
from neoserve.schema.workload import Slo, Workload

OPEN = Workload(arrival="poisson", rate_rps=4.0)
GIVEN = Quantile(value=0.25, low=0.2, high=0.3)
NONE = Quantile(value=None, low=None, high=None)


def summary(p95=GIVEN, mean=0.1, num=50):
    return Summary(num=num, num_failed=0, mean=mean, p50=Quantile(0.09, 0.08, 0.1), p95=p95,
                   p99=Quantile(0.4, 0.3, None))  # fmt: skip


def line_of(text, start):
    """Cells of the one line that starts so."""
    [found] = [line for line in text.splitlines() if line.startswith(start)]
    return re.split(r"  +", found.rstrip())


def shown(**changes):
    return sentence(trial(**({"workload": OPEN, "offered_rps": 3.91, "num_judged": 400,
                              "num_ok": 399} | changes)))  # fmt: skip


def test_latencies_and_their_intervals():
    text = latencies(trial(ttft_s=summary(), tpot_s=summary(mean=None), itl_s=summary(num=0)))
    assert line_of(text, "TTFT") == ["TTFT", "100 ms", "90.0 ms", "250 ms", "200 ms to 300 ms",
                                     "400 ms"]  # fmt: skip
    assert line_of(text, "TPOT")[1] == "unknown"
    assert "time between chunks" not in text  # the server did not tell


@pytest.mark.parametrize(
    ("p95", "cells"),
    [
        (Quantile(None, None, None), ["failed", "400 ms"]),
        (Quantile(0.25, None, 0.3), ["250 ms", "unbounded to 300 ms", "400 ms"]),
        (Quantile(0.25, 0.2, None), ["250 ms", "200 ms to unbounded", "400 ms"]),
        (Quantile(None, 0.2, None), ["unknown", "200 ms to unbounded", "400 ms"]),
    ],
)
def test_quantiles_without_bounds_or_among_failures(p95, cells):
    assert line_of(latencies(trial(ttft_s=summary(p95))), "TTFT")[3:] == cells


def test_rates_and_costs():
    cost = TrialCost(0.36, "given with --price", 10.0, 2.5, 2.0)
    found = trial(offered_rps=3.912, served_rps=3.9, goodput_rps=3.7, output_tokens_per_s=1234.5,
                  input_tokens_per_s=None, cost=cost)  # fmt: skip
    text = rates(found)
    assert text.splitlines()[:4] == [
        "offered  3.91 requests/s", "served   3.90 requests/s",
        "goodput  3.70 requests/s within the SLO", "output   1,234 tokens/s",
    ]  # fmt: skip
    assert "input  " not in text  # there is no steady window to count it in
    assert re.sub(r"\s+", " ", "\n".join(text.splitlines()[4:])) == (
        "cost $10.0 per million output tokens, $2.50 per million input, $2.00 per million of both, "
        "at this load and $0.360 an hour (given with --price)"
    )
    without = rates(found.replace(cost=None, slo=Slo()))
    assert "goodput" not in without
    assert "$" not in without


def test_pass_says_on_what_and_how_far():
    text = shown(verdict="PASS", reasons=("3 of 400 missed",), load_limited=False)
    assert text == (
        "PASS on ttft:p95<1.00 s: 399 of 400 requests served at 3.91 requests/s (poisson) "
        "(3 of 400 missed)."
    )
    assert "at 4.00 requests/s" in shown(offered_rps=None)  # without a steady window, as asked
    closed = shown(workload=Workload(arrival="closed", concurrency=8))
    assert "served at 8 requests in flight" in closed


def test_void_says_nothing_of_the_server():
    text = shown(verdict="VOID", reasons=("the client was late", "a cache was warm"))
    assert text.startswith("VOID: the client was late; a cache was warm. 399 of 400")
    assert text.endswith("but they say nothing.")
    assert "capacity" not in text


def test_saturated_and_load_limited():
    saturated = shown(saturated=True, load_limited=True, backlog_growth_rps=0.52)
    assert "the server is saturated: its backlog grows by 0.520 requests/s" in saturated
    assert "kept up" not in saturated
    assert "the server kept up with the load, so its capacity is not known" in shown()


def test_interrupted_and_without_an_slo():
    assert "; cut off by Ctrl-C, judged on what there is (" in shown(stop="interrupted")
    text = shown(slo=Slo(), stop="interrupted")
    assert text.endswith("cut off by Ctrl-C, judged on what there is. No SLO was given, so "
                         "nothing was decided.")  # fmt: skip


def test_what_the_client_did_to_the_figures():
    quiet = client_notes(trial(late_p99_s=0.0015, client=CLIENT.replace(lag_p99_s=0.002)))
    assert quiet == [
        "the client sent 1.50 ms late at p99 and looked at its sockets 2.00 ms late at p99 "
        "(asyncio, 1 process on CPUs 0)"
    ]
    busy = client_notes(trial(
        client=CLIENT.replace(workers=3, others_cores=1.26), dependence=3.44,
    ))  # fmt: skip
    assert "3 processes" in busy[0]
    assert busy[1] == "other programs used 1.3 cores meanwhile"
    assert "3.4 of them say as much as one independent request" in busy[2]


def test_a_lag_that_was_not_observed_is_not_unbounded():
    [note] = client_notes(trial(client=CLIENT.replace(lag_p99_s=None)))
    assert "unbounded" not in note


def probe(rate_rps, verdict, **more):
    fields = {"saturated": False, "num_misses": 2, "num": 150, "share": 0.05, "dependence": 1.5}
    return Probe(rate_rps=rate_rps, seed=0, verdict=verdict, **(fields | more))


def max_rate(**changes):
    return MaxRate(certified_rps=7.8, not_met_rps=9.123, tolerance=0.05, level=0.05, probes=(),
                   notes=()).replace(**changes)  # fmt: skip


def test_the_highest_rate_in_a_sentence():
    assert max_rate_sentence(max_rate(), trial()) == (
        "Certified: 7.80 requests/s keep ttft:p95<1.00 s at 95% confidence; 9.12 requests/s was "
        "not met."
    )
    limited = max_rate(not_met_rps=None, notes=("load-limited: the capacity is unknown",))
    assert max_rate_sentence(limited, trial()) == (
        "Certified: 7.80 requests/s keep ttft:p95<1.00 s at 95% confidence (load-limited: the "
        "capacity is unknown)."
    )
    nothing = max_rate(certified_rps=None, notes=("no rate was proven",))
    assert max_rate_sentence(nothing, trial()) == (
        "No rate was certified within ttft:p95<1.00 s (no rate was proven)."
    )


def test_probes_load_by_load():
    text = probes(max_rate(probes=(
        probe(4.0, "PASS"), probe(16.0, "INCONCLUSIVE", saturated=True, num_misses=40),
        probe(7.8, "PASS", certifies=True, num=200, num_misses=0, dependence=1.0),
    )))  # fmt: skip
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()[2:]]
    assert rows == [
        ["4.00", "2 of 150", "1.50", "PASS", "search"],
        ["16.0", "40 of 150", "1.50", "INCONCLUSIVE, saturated", "search"],
        ["7.80", "0 of 200", "1.00", "PASS", "certifying"],
    ]


def test_repeats_line_by_line():
    text = repeats([trial(ttft_s=summary(), tpot_s=summary(), output_tokens_per_s=1500.0),
                    trial(output_tokens_per_s=None, verdict="FAIL")])  # fmt: skip
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()[2:]]
    assert rows == [["1", "90.0 ms", "250 ms", "90.0 ms", "1,500", "PASS"],
                    ["2", "unknown", "unknown", "unknown", "unknown", "FAIL"]]  # fmt: skip


def test_an_output_rate_that_is_not_known_is_not_nought():
    last = repeats([trial(output_tokens_per_s=None)]).splitlines()[-1]
    assert "unknown" in re.split(r"  +", last.strip())[4]


def test_the_noise_floor():
    text = noise(NoiseFloor(num_trials=4, spreads={
        "ttft_p50": Spread(mean=0.1, range_share=0.123, sd_share=0.05),
        "output_tokens_per_s": Spread(mean=100.0, range_share=0.004, sd_share=0.002),
    }))  # fmt: skip
    assert "ttft_p50 12.3%" in " ".join(text.split())
    assert "0.4%. Smaller differences are none." in " ".join(text.split())


def bench(*trials, **more):
    return Bench(trials=trials, verdict="PASS", run="runs/x", head="ab" * 32, **more)


def test_a_bench_says_how_to_check_it():
    text = show_bench(bench(trial(notes=("TTFT is drifting",))))
    assert "TTFT is drifting" in text
    assert text.endswith(f"neoserve verify runs/x --head {'ab' * 32}")
    assert text.index("Notes") < text.index("PASS on ttft:p95<1.00 s") < text.index("Run folder")


def test_a_bench_of_repeats_and_one_of_rates():
    pooled = Pooled(num_trials=2, num_judged=180, num_misses=1, verdict="PASS",
                    reasons=("1 of 180 missed",))  # fmt: skip
    floor = NoiseFloor(num_trials=2, spreads={"ttft_p50": Spread(0.1, 0.05, 0.02)})
    repeated = bench(trial(), trial(), pooled=pooled, noise=floor)
    text = show_bench(repeated)
    assert conclusion(repeated) == (
        "PASS on ttft:p95<1.00 s, 2 trials and 180 requests pooled: 1 of 180 missed."
    )
    assert "out tok/s" in text
    assert "Noise floor" in text
    rated = show_bench(bench(trial(), trial(), max_rate=max_rate(probes=(probe(4.0, "PASS"),))))
    assert "Certified: 7.80 requests/s" in rated
    assert "worth one" in rated
    assert "out tok/s" not in rated


def selftest(**changes):
    return SelfTest(
        streams=100, true_ttft_s=0.05, true_itl_s=0.01, output_tokens=100, loop="uvloop", workers=1,
        cpus=2, num_requests=480, num_failed=0, num_chunks=48000, num_lost=3, chunks_per_s=9615.0,
        ttft_error_s=ErrorSpread(0.001, 0.002, 0.003),
        itl_error_s=ErrorSpread(0.0001, 0.0002, 0.0003),
        receive_delay_s=ErrorSpread(0.00005, 0.00006, 0.00007),
        server_late_s=ErrorSpread(-0.0004, 0.0, 0.0005), client_cpu_s_per_chunk=0.000042,
        limit_s=0.005, is_trusted=True, reason="it is within 5.00 ms",
    ).replace(**changes)  # fmt: skip


def test_a_self_test():
    text = show_selftest(selftest())
    assert line_of(text, "TTFT read too long by")[1:] == ["1.00 ms", "2.00 ms", "3.00 ms"]
    assert line_of(text, "truth server itself late by")[1:] == ["-400 µs", "0 s", "500 µs"]
    flat = " ".join(text.split())
    assert "9,615 chunks/s, true TTFT 50.0 ms: 48,000 chunks received, 3 lost, 42 µs" in flat
    assert flat.endswith("The client is trusted at this load: it is within 5.00 ms.")
    other = show_selftest(selftest(is_trusted=False, receive_delay_s=None, server_late_s=None))
    assert "our stamp" not in other
    assert "truth server" not in other
    assert "The client is not to be trusted at this load" in other
