"""Money by hand: 537.6 output tokens/s for 0.638 dollars an hour."""

import msgspec
import pytest

from neoserve.recipe.bundle import bundle
from neoserve.recipe.cost import cost_card, savings
from neoserve.schema.campaign import Gain
from neoserve.schema.recipe import CostCard

from .sample import HEAD, QUALITY, graviton, llamacpp


def test_a_certified_configuration():
    card = cost_card(graviton(), HEAD, output_tokens_per_month=5e9)
    assert card.usd_per_mtok_output == pytest.approx(0.638 / (537.6 * 3600) * 1e6)
    assert card.usd_per_mtok_input == pytest.approx(card.usd_per_mtok_output / 4)
    assert card.usd_per_mtok_total == pytest.approx(card.usd_per_mtok_output / 5)
    assert card.output_tokens_per_usd == pytest.approx(537.6 * 3600 / 0.638)
    assert card.total_tokens_per_usd == pytest.approx(5 * card.output_tokens_per_usd)
    month = card.month_at_certified_rate
    assert (month.replicas, month.usd) == (1, pytest.approx(465.74))
    assert month.output_tokens == pytest.approx(537.6 * 3600 * 730)
    # 5e9 over 1.4128e9 a replica
    assert (card.month_at_volume.replicas, card.month_at_volume.usd) == (4, pytest.approx(1862.96))
    assert card.price_date == "2026-07-20"
    assert card.quality == QUALITY
    assert card.ledger_head == HEAD
    assert card.trials == (graviton().trial.rows, graviton().baseline_trial.rows)


def test_savings_are_the_gain_turned_over():
    """1.4 times the requests for the same money: each costs 1/1.4."""
    found = savings(graviton())
    assert (found.share, found.low, found.high) == pytest.approx((1 - 1 / 1.4, 0.2, 0.375))
    slower = savings(graviton(gain=Gain(0.8, 0.5, None, 0.05)))
    assert (slower.share, slower.low, slower.high) == (pytest.approx(-0.25), -1.0, None)


def test_no_savings_without_two_certificates():
    r = graviton()
    uncertified = r.baseline.replace(capacity=r.baseline.capacity.replace(certified_rps=None))
    found = savings(r.replace(baseline=uncertified))
    assert found.share is None
    assert found.reason == "both the pick's rate and the baseline's have to be certified"
    assert savings(r.replace(pick=r.baseline)).reason == "the engine's defaults are the pick"
    nothing = savings(r.replace(gain=Gain(None, None, None, 0.05, "a tie")))
    assert (nothing.share, nothing.reason) == (None, "a tie")


def test_no_price_no_cost():
    card = cost_card(llamacpp(), HEAD, output_tokens_per_month=1.0)
    assert card.usd_per_mtok_output is card.output_tokens_per_usd is card.usd_per_hour is None
    assert card.month_at_certified_rate is card.month_at_volume is None
    assert card.notes[0].startswith("No price is known")
    page = bundle(llamacpp(), HEAD).files["cost.md"]
    assert "| Price | not known |" in page
    assert "| A month at the certified rate | not known |" in page


def test_nothing_certified_no_cost():
    r = graviton(price_source="given with --price")
    pick = r.pick.replace(capacity=r.pick.capacity.replace(certified_rps=None))
    card = cost_card(r.replace(pick=pick), HEAD)
    assert card.usd_per_mtok_output is card.month_at_certified_rate is None
    assert card.price_date == ""
    assert card.notes[:2] == (
        "The price's source names no date.",
        "No rate is certified, so no cost of a token is stated.",
    )


def test_the_file_is_the_document():
    files = bundle(graviton(), HEAD, output_tokens_per_month=5e9).files
    card = CostCard.parse_json(files["cost.json"], "cost.json")
    assert card == cost_card(graviton(), HEAD, output_tokens_per_month=5e9)
    assert msgspec.json.decode(files["cost.json"])["basis"] == "measured"
    assert "| Per million output tokens | $0.330 |" in files["cost.md"]
    assert "$1,863 for 5,000,000,000 output tokens, 4 replicas |" in files["cost.md"]
    assert "defaults | 29% of a token's cost (20% to 38%) |" in files["cost.md"]
