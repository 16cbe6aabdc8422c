"""Recommendations as campaigns end in them: llama.cpp here, vLLM on Graviton4 and on GPUs."""

from evidence.sample import CLIENT, HOST
from evidence.sample import trial as small_trial
from neoserve.schema.campaign import Capacity, Gain, Recommendation, Standing
from neoserve.schema.engine import EngineConfig
from neoserve.schema.quality import QualityCheck
from neoserve.schema.space import Candidate
from neoserve.schema.trial import EngineFacts, ProcessFacts, Quantile, Summary, TrialCost
from neoserve.schema.workload import Slo, Workload

HEAD = "ab12" * 16
SLO = Slo.parse_text("ttft:p95<3s; tpot:p95<200ms; quality<4%")
GRAVITON4 = HOST.replace(
    cpu_model="Neoverse-V2", isa=("asimd", "bf16", "i8mm", "sve2"), physical_cores=16,
    logical_cpus=16, cpuset="0-15", memory_bytes=32 * 2**30, kernel="6.8.0-aws",
)  # fmt: skip
XEON = HOST.replace(
    cpu_model="Xeon", isa=("avx", "avx2"), physical_cores=2, logical_cpus=2, cpuset="0-1",
    memory_bytes=8 * 2**30, kernel="6.1.0",
)  # fmt: skip

LLAMACPP = EngineConfig(
    engine="llama.cpp",
    version="xllamacpp 2026.10",
    argv=("/opt/venv/bin/python", "-m", "neoserve.measure.engine.llamacpp_server",
          "--model", "/srv/my models/SmolLM2-135M.Q4_1.gguf", "--ctx-size", "2048",
          "--parallel", "4", "--threads", "1", "--threads-batch", "1", "--metrics"),
    env={"LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"},
)  # fmt: skip
W8A8 = EngineConfig(
    engine="vllm",
    version="vllm 0.32.0+cpu",
    argv=("/opt/venv/bin/vllm", "serve", "/models/Qwen2.5-1.5B.w8a8", "--max-num-seqs", "64",
          "--max-num-batched-tokens", "4096", "--no-enable-prefix-caching",
          "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}'),
    env={"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "8",
         "VLLM_CPU_OMP_THREADS_BIND": "0-13",
         "LD_PRELOAD": "/usr/lib/aarch64-linux-gnu/libtcmalloc_minimal.so.4"},
)  # fmt: skip
BF16 = W8A8.replace(argv=("/opt/venv/bin/vllm", "serve", "Qwen/Qwen2.5-1.5B-Instruct"))
GPU = EngineConfig(
    engine="vllm",
    version="vllm 0.33.0",
    argv=("vllm", "serve", "Qwen/Qwen3-32B", "--tensor-parallel-size", "4",
          "--gpu-memory-utilization", "0.92", "--max-num-seqs", "256", "--enforce-eager"),
    env={"VLLM_NO_USAGE_STATS": "1"},
)  # fmt: skip


def trial(engine, host=GRAVITON4, cpus=("0-14", "3"), usd_per_hour=0.638, **changes):
    """Certified at 4.2 requests/s of 512 + 128 tokens: 537.6 output tokens/s."""
    speed, prompt_speed = 4.2 * 128, 4.2 * 512
    cost = TrialCost(
        usd_per_hour=usd_per_hour, price_source="x",
        usd_per_mtok_output=usd_per_hour / 3600 / speed * 1e6,
        usd_per_mtok_input=usd_per_hour / 3600 / prompt_speed * 1e6,
        usd_per_mtok_total=usd_per_hour / 3600 / (speed + prompt_speed) * 1e6,
    )  # fmt: skip
    process = ProcessFacts(pid=7, name="worker", threads=20,
                           affinity=dict.fromkeys(cpus, 2), allocator="x")  # fmt: skip
    latency = Summary(
        num=800, num_failed=0, mean=0.9, p50=Quantile(0.8, 0.7, 0.9),
        p95=Quantile(1.21, 1.1, None), p99=Quantile(None, None, None),
    )  # fmt: skip
    return small_trial(
        workload=WORKLOAD, slo=SLO, engine=engine, host=host, client=CLIENT, num_judged=800,
        num_ok=800, ttft_s=latency, tpot_s=latency, cost=cost,
        facts=EngineFacts(processes=(process,)) if cpus else None,
        output_tokens_per_s=speed, input_tokens_per_s=prompt_speed,
    ).replace(**changes)  # fmt: skip


WORKLOAD = Workload(arrival="poisson", rate_rps=4.2, prompt_tokens=512, output_tokens=128)
QUALITY = QualityCheck(
    baseline="b", candidate="c", change_share=0.012, low=0.004, high=0.02, level=0.95,
    budget_share=0.04, verdict="PASS", reason="within the budget",
)  # fmt: skip


def standing(knobs, certified, state="pick", **changes):
    return Standing(
        candidate=Candidate(knobs=knobs), state=state, reason="the highest certified rate",
        capacity=Capacity(low_rps=certified, high_rps=None, certified_rps=certified), num_jobs=9,
    ).replace(**changes)  # fmt: skip


def recommendation(config, knobs, /, **changes):
    """4.2 requests/s certified against the baseline's 3.0."""
    host = changes.pop("host", GRAVITON4)
    cpus = changes.pop("cpus", ("0-14", "3"))
    pick, baseline = standing(knobs, 4.2), standing({}, 3.0, "slower")
    return Recommendation(
        workload=WORKLOAD, slo=SLO, pick=pick, baseline=baseline, config=config,
        trial=trial(config, host, cpus), baseline_trial=trial(BF16, rows="sha256:" + "0" * 64),
        gain=Gain(ratio=1.4, low=1.25, high=1.6, level=0.1), noise_share=0.02,
        standings=(pick, baseline), num_jobs=31, spent_s=5400.0, ended_by="done",
        usd_per_hour=0.638,
        price_source="c8g.4xlarge: published, AWS us-east-1 on-demand, 2026-07-20",
    ).replace(**changes)  # fmt: skip


def llamacpp(**changes):
    given = {"host": XEON, "cpus": ("0",), "usd_per_hour": None, "price_source": ""} | changes
    found = recommendation(LLAMACPP, {"threads": "1", "parallel": "4"}, **given)
    return found.replace(trial=found.trial and found.trial.replace(cost=None))


def graviton(**changes):
    """vLLM W8A8 on c8g.4xlarge, its threads bound to 14 of the 15 cores that it had."""
    found = recommendation(W8A8, {"weights": "w8a8", "max-num-seqs": "64"}, **changes)
    return found.replace(pick=found.pick.replace(quality=QUALITY))


def gpu(**changes):
    host = XEON.replace(logical_cpus=64, memory_bytes=512 * 2**30)
    return recommendation(GPU, {"tp": "4"}, host=host, cpus=("0-63",), **changes)


EVERY = {"llama.cpp": llamacpp, "vllm-cpu": graviton, "vllm-gpu": gpu}
