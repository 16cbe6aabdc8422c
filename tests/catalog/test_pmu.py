"""What AWS shows of a PMU, by size: the runbook's table, row by row."""

import pytest

from neoserve.catalog.pmu import exposure, full_sizes


@pytest.mark.parametrize(
    ("instance", "level"),
    [
        ("c8g.4xlarge", "basic"), ("c8g.24xlarge", "full"), ("c8g.48xlarge", "full"),
        ("m8gd.metal-24xl", "full"), ("c7g.8xlarge", "basic"), ("c7gn.16xlarge", "full"),
        ("hpc7g.16xlarge", "full"), ("r6g.16xlarge", "full"), ("c6g.metal", "full"),
        ("c6i.4xlarge", "none"), ("m6i.32xlarge", "full"), ("m6id.16xlarge", "full"),
        ("c6a.16xlarge", "none"), ("m7i-flex.8xlarge", "basic"), ("m7a.24xlarge", "full"),
        ("c8i.24xlarge", "basic"), ("c9g.12xlarge", "full"), ("c9g.8xlarge", "basic"),
        # larger than the least size that shows everything, under another number
        ("hpc7a.96xlarge", "full"), ("r7iz.32xlarge", "full"),
        ("c7i.large", "basic"), ("c7i.xlarge", "basic"),
    ],
)  # fmt: skip
def test_levels(instance, level):
    found = exposure(instance)
    assert found.level == level
    assert found.source.url.startswith("https://github.com/aws/")
    assert found.source.date >= "2026-07"


@pytest.mark.parametrize("name", ["p5.48xlarge", "g5g.xlarge", "n2-standard-8", "", "c8g", "x.y.z"])
def test_nothing_is_made_up_of_others(name):
    assert exposure(name) is None
    assert full_sizes(name) == ()


def test_graviton4_guests_have_two_counters():
    assert "2 of 6 counters" in exposure("c8g.4xlarge").says
    assert full_sizes("c8g.4xlarge") == ("c8g.24xlarge", "c8g.48xlarge")
