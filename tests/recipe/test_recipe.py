import shlex

import pytest
import yaml

from neoserve.errors import AskError
from neoserve.recipe.compose import llamacpp_compose, vllm_compose
from neoserve.recipe.vllm import serve_args, serve_command
from neoserve.schema.engine import Deployment, EngineConfig

LLAMACPP = EngineConfig(
    engine="llama.cpp",
    argv=("python", "-m", "server", "--model", "/data/m b/x.gguf", "--ctx-size", "2048",
          "--parallel", "4", "--threads", "1"),
    env={"LD_PRELOAD": "$ORIGIN/x.so"},
)  # fmt: skip


def test_defaults_need_no_flags():
    assert serve_command("org/model", Deployment()) == "vllm serve org/model"


def test_flags_where_they_differ():
    deployment = Deployment(
        tensor_parallel=2, pipeline_parallel=3, expert_parallel=True, decode_context_parallel=2,
        weight_quant="fp8", kv_cache_dtype="fp8", enforce_eager=True, enable_prefix_caching=False,
        max_model_len=8192, max_num_seqs=64, max_num_batched_tokens=4096,
        gpu_memory_utilization=0.95, block_size=32, async_scheduling=False,
        mamba_ssm_cache_dtype="float32", mamba_cache_dtype="bfloat16", num_speculative_tokens=2,
        disable_hybrid_kv_cache_manager=True,
    )  # fmt: skip
    words = shlex.split(serve_command("org/model", deployment, port=9000))
    assert words == [
        "vllm", "serve", "org/model",
        "--tensor-parallel-size", "2", "--pipeline-parallel-size", "3",
        "--decode-context-parallel-size", "2", "--quantization", "fp8", "--kv-cache-dtype", "fp8",
        "--max-model-len", "8192", "--max-num-seqs", "64", "--max-num-batched-tokens", "4096",
        "--gpu-memory-utilization", "0.95", "--block-size", "32",
        "--mamba-cache-dtype", "bfloat16", "--mamba-ssm-cache-dtype", "float32",
        "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}',
        "--enforce-eager", "--enable-expert-parallel", "--no-enable-prefix-caching",
        "--no-async-scheduling", "--disable-hybrid-kv-cache-manager", "--port", "9000",
    ]  # fmt: skip
    assert "--async-scheduling" in serve_args("m", Deployment(async_scheduling=True))


def test_every_field_reaches_the_command_or_is_known_not_to():
    """A field that is added to Deployment has to be thought of here."""
    elsewhere = {"hardware", "num_devices", "engine", "engine_version", "replicas"}
    usual = serve_args("m", Deployment())
    for name, value in Deployment().to_data().items():
        if name in elsewhere:
            continue
        if isinstance(value, bool):
            changed = not value
        else:
            changed = {"weight_quant": "fp8", "async_scheduling": True}.get(
                name, "fp8" if isinstance(value, str) else 7
            )
        assert serve_args("m", Deployment().replace(**{name: changed})) != usual, name


def test_the_cpu_backend_takes_its_kv_space_from_the_environment():
    command = serve_command("my model", Deployment(), cpu_kv_bytes=9 * 2**30 + 5)
    assert command == "VLLM_CPU_KVCACHE_SPACE=9 vllm serve 'my model'"
    assert "SPACE=1 " in serve_command("m", Deployment(), cpu_kv_bytes=5)


def test_what_vllm_cannot_do_is_refused():
    with pytest.raises(AskError, match="awq-int4"):
        serve_command("m", Deployment(weight_quant="awq-int4"))
    with pytest.raises(AskError, match=r"llama\.cpp"):
        serve_command("m", Deployment(engine="llama.cpp"))
    with pytest.raises(AskError, match="--model"):
        llamacpp_compose(EngineConfig(engine="vllm"))
    with pytest.raises(AskError, match="--model"):
        llamacpp_compose(EngineConfig(engine="llama.cpp"))


def test_llamacpp_compose_runs_the_same_arguments():
    text = llamacpp_compose(
        LLAMACPP, numbers=["p95 TTFT 0.4 s\nmeasured"], ledger_head="ab" * 32, port=9001
    )
    service = yaml.safe_load(text)["services"]["llamacpp"]
    assert service["image"] == "ghcr.io/ggml-org/llama.cpp:server"
    assert service["command"] == [
        "--model", "/models/x.gguf", "--ctx-size", "2048", "--parallel", "4", "--threads", "1",
        "--host", "0.0.0.0", "--port", "8080",
    ]  # fmt: skip
    assert service["volumes"] == [
        {"type": "bind", "source": "/data/m b", "target": "/models", "read_only": True}
    ]
    assert service["ports"] == ["9001:8080"]
    assert service["environment"] == {"LD_PRELOAD": "$$ORIGIN/x.so"}
    assert set(service["healthcheck"]) == {"test", "interval", "timeout", "retries", "start_period"}
    assert text.splitlines()[:3] == [
        "# Written by NeoServe.",
        "# p95 TTFT 0.4 s measured",
        f"# Evidence: ledger head {'ab' * 32}",
    ]


def test_vllm_compose_on_gpus():
    deployment = Deployment(tensor_parallel=4, engine_version="0.33.0")
    document = yaml.safe_load(vllm_compose("org/model", deployment, device="gpu"))
    service = document["services"]["vllm"]
    assert service["image"] == "vllm/vllm-openai:v0.33.0"
    assert service["entrypoint"] == ["vllm", "serve"]
    assert service["command"] == ["org/model", "--tensor-parallel-size", "4"]
    assert service["deploy"]["resources"]["reservations"]["devices"][0] == {
        "driver": "nvidia", "count": 4, "capabilities": ["gpu"],
    }  # fmt: skip
    assert document["volumes"] == {"huggingface": {}}
    assert service["environment"] == {"HF_TOKEN": "${HF_TOKEN:-}"}
    compile(service["healthcheck"]["test"][-1], "probe", "exec")


def test_vllm_compose_on_cpus():
    text = vllm_compose(
        "org/model", Deployment(), device="cpu", arch="arm64", cpu_kv_bytes=8 * 2**30
    )
    service = yaml.safe_load(text)["services"]["vllm"]
    assert service["image"] == "vllm/vllm-openai-cpu:latest-arm64"
    assert service["environment"]["VLLM_CPU_KVCACHE_SPACE"] == "8"
    assert service["cap_add"] == ["SYS_NICE"]
    assert "deploy" not in service
