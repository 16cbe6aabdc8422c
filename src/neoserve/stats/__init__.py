"""Order statistics, exact intervals, sequential tests, series, pairs. Pure; needs no library."""

from .binomial import (
    beta_cdf,
    beta_quantile,
    binomial_cdf,
    binomial_pmf,
    clopper_pearson,
)
from .order import mean, quantile, quantile_interval
from .paired import Change, mcnemar, paired_bootstrap
from .sequential import SequentialShare, early, late
from .series import (
    autocorrelation_time,
    block_bootstrap_interval,
    dependence,
    isotonic,
    ranks,
    slope,
)
from .student import mean_interval, t_quantile

__all__ = [
    "Change",
    "SequentialShare",
    "autocorrelation_time",
    "beta_cdf",
    "beta_quantile",
    "binomial_cdf",
    "binomial_pmf",
    "block_bootstrap_interval",
    "clopper_pearson",
    "dependence",
    "early",
    "isotonic",
    "late",
    "mcnemar",
    "mean",
    "mean_interval",
    "paired_bootstrap",
    "quantile",
    "quantile_interval",
    "ranks",
    "slope",
    "t_quantile",
]
