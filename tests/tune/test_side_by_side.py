"""What may stand side by side, and the gain of one side over another."""

from __future__ import annotations

import pytest

from neoserve.predict.gain import Joint
from neoserve.schema.comparison import ComparedSide, Figure, Terms
from neoserve.schema.workload import Slo
from neoserve.tune.side_by_side import gains, model_key, show_gain, slo_text, unlike

TERMS = Terms(model="org/Qwen2.5-1.5B", load="poisson", prompt_tokens=512, output_tokens=128,
              slo=slo_text(Slo.parse_text("ttft:p95<3s; tpot:p95<200ms")),
              definitions={"ttft": "from arrival", "tpot": "per token", "e2e": "x"})  # fmt: skip


def side(name: str, figure: Figure | None = None, **changes: object) -> ComparedSide:
    basis = ComparedSide(name=name, basis="measured", source="s", terms=TERMS, standing="capacity",
                         output_tokens_per_s=figure or Figure(10.0, 10.0, 14.0, 0.95))  # fmt: skip
    return basis.replace(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "Llama-8B"}, "It is of Llama-8B, the others are of org/Qwen2.5-1.5B."),
        ({"model": None}, "It is of an unnamed model"),
        ({"load": "constant"}, "Its load is open, constant, the others' open, poisson."),
        ({"load": "closed", "concurrency": 4}, "closed with 4 requests in flight"),
        ({"load": None}, "does not say at which load"),
        ({"slo": None}, "does not say which SLO it keeps"),
        ({"slo": ""}, "It keeps the SLO none, the others tpot:p95<200 ms; ttft:p95<3.00 s."),
        ({"slo": slo_text(Slo.parse_text("ttft:p99<3s; tpot:p95<200ms"))}, "ttft:p99<3.00 s"),
        ({"prompt_tokens": 600}, "Its requests have 600 prompt tokens, the others' 512."),
        ({"output_tokens": None}, "How many output tokens its requests have is not said."),
        ({"shape": "turns 4"}, "Its requests are turns 4, the others' plain."),
        ({"definitions": {"ttft": "from sending", "tpot": "per token"}},
         "Its TTFT counts from sending, the others' from arrival."),
        ({"definitions": {"ttft": "from arrival"}}, "Its TPOT counts by an unknown rule"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told(changes: dict[str, object], said: str) -> None:
    assert said in unlike(TERMS.replace(**changes), TERMS)


def test_what_does_not_matter_is_no_difference() -> None:
    assert unlike(TERMS, TERMS) == ""
    near = TERMS.replace(prompt_tokens=520.0, model="/models/qwen2.5-1.5b-W8A8",
                         definitions={**TERMS.definitions, "e2e": "y"})  # fmt: skip
    assert unlike(near, TERMS) == "", "lengths that tools pad, weights, and what no limit is on"
    assert slo_text(Slo.parse_text("tpot:p95<0.2; quality<4%; ttft:p95<3000ms")) == TERMS.slo


@pytest.mark.parametrize(
    ("name", "key"),
    [("/m/SmolLM2-135M-Instruct.Q8_0.gguf", "smollm2-135m-instruct"),
     ("RedHatAI/Qwen2.5-1.5B-quantized.w8a8", "qwen2.5-1.5b-quantized"),
     ("Qwen/Qwen3-8B-AWQ", "qwen3-8b"), ("org/Llama-3.1-8B-Instruct-FP8-dynamic/",
                                          "llama-3.1-8b-instruct"), ("Qwen3-4B", "qwen3-4b")],
)  # fmt: skip
def test_weights_are_no_other_model(name: str, key: str) -> None:
    assert model_key(name) == key


def test_measured_capacities_gain_certified_over_refuted() -> None:
    """10 certified, 14 refuted, over 4 and 5: at least 10 / 5, at most 14 / 4."""
    found = gains(side("a"), side("b", Figure(4.0, 4.0, 5.0, 0.9)), None)
    assert (found.of_rate.ratio, found.of_rate.low, found.of_rate.high) == (2.5, 2.0, 3.5)
    assert found.of_rate.level == pytest.approx(0.05 + 0.1)
    assert found.per_usd.reason == "no price of a is known"
    open_end = gains(side("a", Figure(10.0, 10.0, None, 0.95)), side("b"), None).of_rate
    assert (open_end.low, open_end.high) == (10 / 14, None)
    assert show_gain(open_end) == "1.00x (0.71 to unbounded)"


def test_money_divides_by_the_price() -> None:
    found = gains(side("a", usd_per_hour=0.5), side("b", usd_per_hour=2.0), None)
    assert found.per_usd.ratio == found.of_rate.ratio * 4
    assert (found.per_usd.low, found.per_usd.high) == (
        found.of_rate.low * 4, found.of_rate.high * 4)  # fmt: skip


def test_closed_loads_are_joined_by_the_squares_of_their_distances() -> None:
    """Logarithms: (ln 12 - ln 10) and (ln 4 - ln 3.5) squared, added, and their root."""
    closed = TERMS.replace(load="closed", concurrency=4)
    a = side("a", Figure(10.0, 9.0, 12.0, 0.9), terms=closed)
    b = side("b", Figure(4.0, 3.5, 4.4, 0.9), terms=closed)
    found = gains(a, b, None).of_rate
    assert found.ratio == pytest.approx(2.5)
    up, down = (0.182321557**2 + 0.133531393**2) ** 0.5, (0.105360516**2 + 0.0953101798**2) ** 0.5
    assert found.high == pytest.approx(2.5 * 2.718281828**up)
    assert found.low == pytest.approx(2.5 * 2.718281828**-down)
    assert found.level == pytest.approx(0.1)


def test_the_same_evidence_is_no_change() -> None:
    found = gains(*(side(name, head="h", usd_per_hour=1.0) for name in "ab"), None)
    for gain in (found.of_rate, found.per_usd):
        assert (gain.ratio, gain.low, gain.high) == (1.0, 1.0, 1.0)
        assert not gain.is_proven
    assert show_gain(found.of_rate) == "1.00x"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"standing": "at least"}, "a is load-limited: it may do more"),
        ({"standing": "unknown"}, "a is not shown to be a capacity"),
        ({"standing": "none"}, "a has no figure"),
        ({"basis": "predicted"}, "a is predicted and b measured"),
    ],
)  # fmt: skip
def test_no_gain_is_printed_unless_both_are_capacities(
    changes: dict[str, object], said: str
) -> None:
    found = gains(side("a", **changes), side("b"), None)
    assert said in found.of_rate.reason
    assert (found.of_rate.ratio, found.per_usd.ratio) == (None, None)
    assert show_gain(found.of_rate) == "-"
    assert gains(side("b"), side("a", **changes), None).of_rate.ratio is None


def test_predictions_take_the_joint_interval() -> None:
    a, b = (side(name, basis="predicted", usd_per_hour=price) for name, price in
            (("a", 1.0), ("b", 3.0)))  # fmt: skip
    found = gains(a, b, Joint(2.0, 0.5, None, 0.9, "how"))
    assert (found.of_rate.ratio, found.of_rate.low, found.of_rate.high) == (2.0, 0.5, None)
    assert (found.per_usd.ratio, found.per_usd.low) == (6.0, 1.5)
    assert found.basis == "how"
    assert "no intervals" in gains(a, b, None).of_rate.reason


def test_published_capacities_have_the_roundings_alone() -> None:
    a, b = (side(name, Figure(value, value - 0.5, value + 0.5), basis="published")
            for name, value in (("a", 20.0), ("b", 10.0)))  # fmt: skip
    found = gains(a, b, None)
    assert found.of_rate.low == pytest.approx(19.5 / 10.5)
    assert found.of_rate.high == pytest.approx(20.5 / 9.5)
    assert (found.of_rate.level, "roundings" in found.basis) == (0.0, True)
