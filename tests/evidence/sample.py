"""A small trial and its rows, for tests of what is done with them."""

from neoserve.evidence import ledger
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import ClientFacts, HostPrint, Quantile, Summary, Trial
from neoserve.schema.workload import Slo, Workload

ROWS = b'{"due_s":0.5}\n'
SCHEDULE = b'{"due_s":0.5,"prompt_tokens":4,"output_tokens":2}\n'
HOST = HostPrint(
    cpu_model="X", isa=(), physical_cores=1, logical_cpus=1, cpuset="0", quota_cores=None,
    memory_bytes=1, numa_nodes=1, kernel="", governor="", smt="", thp="", load_average_1min=0.0,
    clock_hz=0.0, versions={},
)  # fmt: skip
CLIENT = ClientFacts(
    loop="asyncio", workers=1, cpus="0", shares_cores=True, lag_p99_s=0.0,
    cpu_s=0.1, engine_cpu_s=None, others_cores=None,
)  # fmt: skip


def digest_of(data):
    return "sha256:" + ledger.digest(data)


def trial(rows=ROWS, schedule=SCHEDULE, **changes):
    none = Quantile(value=None, low=None, high=None)
    summary = Summary(num=1, num_failed=0, mean=0.5, p50=none, p95=none, p99=none)
    return Trial(
        workload=Workload(), slo=Slo.parse_text("ttft:p95<1s"), engine=EngineConfig(engine="x"),
        facts=None, host=HOST, client=CLIENT, salt="s", schedule=digest_of(schedule),
        rows=digest_of(rows), faults=(), level=0.05, num_planned=1,
        num_judged=1, num_ok=1, failures={}, stop="planned",
        ttft_s=summary, tpot_s=summary, itl_s=summary, e2e_s=summary, queue_s=summary,
        late_p99_s=0.0, late_max_s=0.0, dependence=1.0,
        steady_from_s=0.0, steady_until_s=1.0, output_tokens_per_s=1.0,
        input_tokens_per_s=1.0, offered_rps=1.0, served_rps=1.0, goodput_rps=1.0,
        backlog_growth_rps=0.0, saturated=False, load_limited=True, counters={}, cost=None,
        verdict="PASS", reasons=("ok",), notes=(),
    ).replace(**changes)  # fmt: skip
