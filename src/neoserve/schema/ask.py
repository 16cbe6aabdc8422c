"""What each operation is asked: one request document in, one answer out, for every face."""

from __future__ import annotations

from .base import Document
from .engine import Deployment
from .workload import Workload


class PredictAsk(Document, frozen=True, kw_only=True):
    """One configuration. `on` is a HW argument; `catalog` is a YAML file of the user's own,
    `profile` a DeviceProfile's."""

    model: str
    on: str
    deployment: Deployment = Deployment()
    workload: Workload = Workload()
    slo: str = ""
    usd_per_hour: float | None = None
    utilization_share: float = 1.0
    output_tokens_per_month: float | None = None  # a volume to size a fleet for
    available_kv_bytes: int | None = None
    memory_bytes: int | None = None
    catalog: str = ""
    profile: str = ""
    online: bool = True
    simulate: bool | None = None  # None: where a percentile is asked for, or the load varies
    num_requests: int | None = None  # that are simulated


class PlanAsk(Document, frozen=True, kw_only=True):
    """A comparison. Lists are varied; None leaves the choice to the planner."""

    model: str
    on: tuple[str, ...]
    deployment: Deployment = Deployment()
    workload: Workload = Workload()
    slo: str = ""
    rate_rps: float = 0.0
    weight_quant: tuple[str, ...] | None = None
    tensor_parallel: tuple[int, ...] | None = None
    pipeline_parallel: tuple[int, ...] = (1,)
    expert_parallel: tuple[bool, ...] = (False,)
    kv_cache_dtype: tuple[str, ...] | None = None
    enforce_eager: tuple[bool, ...] = (False,)
    enable_prefix_caching: tuple[bool, ...] | None = None
    max_num_seqs: tuple[int, ...] | None = None
    max_num_batched_tokens: tuple[int, ...] | None = None
    usd_per_hour: float | None = None
    utilization_share: float = 1.0
    memory_bytes: int | None = None
    catalog: str = ""
    profile: str = ""
    online: bool = True
    keep: int = 50
    simulate: bool | None = None  # of the best ranked: None: where a percentile is asked for
    num_requests: int | None = None
