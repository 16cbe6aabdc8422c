"""Prices by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.predict.cost import cost_of, fleet_for, hourly_usd, price_basis, volume_rps
from neoserve.schema.hardware import Price


def test_the_seed_rows_price_reproduces() -> None:
    # arm-graviton.md 4.4: c8g.4xlarge at 237.5178 output tokens/s costs $0.7462 per million.
    cost = cost_of(0.63808, "given", 237.5178, 4 * 237.5178)
    assert cost.usd_per_mtok_output == pytest.approx(0.7462, abs=5e-5)


def test_three_prices_are_one_bill_divided_three_ways() -> None:
    cost = cost_of(3.6, "given", output_tokens_per_s=100.0, input_tokens_per_s=300.0)
    assert cost.usd_per_mtok_output == pytest.approx(10.0)
    assert cost.usd_per_mtok_input == pytest.approx(10.0 / 3)
    assert cost.usd_per_mtok_total == pytest.approx(2.5)


def test_half_idle_costs_twice_a_token_but_the_same_month() -> None:
    busy, half = (cost_of(2.0, "given", 50.0, 50.0, u) for u in (1.0, 0.5))
    assert half.usd_per_mtok_output == pytest.approx(2 * busy.usd_per_mtok_output)
    assert half.usd_per_month == busy.usd_per_month == 2.0 * 730


def test_nothing_produced_has_no_finite_price() -> None:
    assert math.isinf(cost_of(1.0, "given", 0.0, 10.0).usd_per_mtok_output)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, math.nan])
def test_absurd_utilization_is_refused(share: float) -> None:
    with pytest.raises(AskError):
        cost_of(1.0, "given", 1.0, 1.0, share)


def test_machines_are_rented_whole() -> None:
    price = Price(usd_per_hour=55.04)
    assert hourly_usd(price, num_devices=3, priced_devices=8) == 55.04
    assert hourly_usd(price, num_devices=16, priced_devices=8) == pytest.approx(110.08)
    assert hourly_usd(Price(usd_per_hour=2.0), num_devices=3) == 6.0


def test_price_basis_names_its_source() -> None:
    listed = Price(usd_per_hour=1, source="AWS", region="us-east-1", date="2026-07-20")
    assert price_basis(listed) == "published, AWS us-east-1 on-demand, 2026-07-20"
    assert price_basis(listed.replace(date="")) == "published, AWS us-east-1 on-demand"
    assert price_basis(Price(usd_per_hour=1)) == "given"


def test_fleet_by_hand() -> None:
    fleet = fleet_for(rate_rps=10.0, max_rate_rps=4.0, usd_per_hour=2.0)
    assert (fleet.replicas, fleet.capacity_rps, fleet.usd_per_hour) == (3, 12.0, 6.0)
    assert fleet.idle_share == pytest.approx(1 / 6)
    assert fleet_for(8.0, 4.0, 1.0).replicas == 2
    assert fleet_for(0.1 * 3, 0.1, 1.0).replicas == 3  # 0.30000000000000004
    assert fleet_for(0.0, 4.0, 1.0).replicas == 1


def test_a_fleet_that_cannot_serve_is_refused() -> None:
    with pytest.raises(AskError):
        fleet_for(1.0, 0.0, 1.0)


def test_a_monthly_volume_is_a_rate_of_its_busy_hours() -> None:
    # 730 h x 3,600 s = 2.628e6 s; 2.628e9 tokens are 1,000 a second, ten requests of 100 tokens
    assert volume_rps(2.628e9, 100) == pytest.approx(10.0)
    assert volume_rps(2.628e9, 100, 0.5) == pytest.approx(20.0)


@given(rate=st.floats(0.001, 1e4), highest=st.floats(0.01, 1e3), usd=st.floats(0.01, 500))
def test_a_fleet_carries_its_rate_and_one_replica_less_would_not(
    rate: float, highest: float, usd: float
) -> None:
    fleet = fleet_for(rate, highest, usd)
    assert fleet.capacity_rps >= rate * (1 - 1e-8)
    assert (fleet.replicas - 1) * highest < rate or fleet.replicas == 1
    assert -1e-8 <= fleet.idle_share <= 1
