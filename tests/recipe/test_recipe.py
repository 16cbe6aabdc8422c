import shlex

import pytest

from neoserve.errors import AskError
from neoserve.recipe.vllm import serve_args, serve_command
from neoserve.schema.engine import Deployment


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
