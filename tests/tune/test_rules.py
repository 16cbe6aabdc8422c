import pytest

from neoserve.measure.engine import llamacpp
from neoserve.schema.space import Candidate
from neoserve.schema.workload import Slo, Workload
from neoserve.tune.planner import Planner
from neoserve.tune.rules import broken_rule
from neoserve.tune.space import space_for

from .hosts import facts, graviton, h100s

LLAMA = "meta-llama/Llama-3.1-8B"
LOAD = Workload(arrival="poisson", rate_rps=1.0, prompt_tokens=512, output_tokens=64)


def why(engine, knobs, found=None, planner_for=None, slo="", device="cpu", **more):
    found = found or facts(cores=4)
    space = space_for(engine, planner_for or "m", found, device=device, **more)
    planner = Planner(space, found, LOAD, Slo.parse_text(slo)) if planner_for else None
    return broken_rule(space, Candidate(knobs), found, planner)


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({}, ""),
        ({"threads": "4"}, ""),
        ({"threads": "5"}, "more than the 4 cores"),
        ({"threads-batch": "5"}, "more than the 4 cores"),
        ({"threads": "0"}, "above 0"),
        ({"threads": "two"}, "above 0"),
        ({"poll": "0"}, ""),
        ({"poll": "101"}, "0 to 100"),
        ({"batch": "512", "ubatch": "512"}, ""),
        ({"batch": "512", "ubatch": "1024"}, "ubatch=1024 is more than the batch of 512"),
        ({"cache-type-v": "q8_0"}, ""),
        ({"cache-type-v": "q8_0", "flash-attn": "off"}, "needs flash attention"),
        ({"cache-type-k": "q8_0", "flash-attn": "off"}, ""),
        ({"kv-unified": "off"}, "needs a number of slots"),
        ({"kv-unified": "off", "parallel": "2"}, ""),
        ({"flash-attn": "yes"}, "on or off"),
        ({"colour": "red"}, "no knob"),
    ],
)
def test_llama_cpps_rules(knobs, reason):
    found = why("llama.cpp", knobs)
    assert reason in found
    assert bool(reason) == bool(found)


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({}, ""),
        ({"batched-tokens": "512", "max-seqs": "513"}, "vLLM refuses to start"),
        ({"max-seqs": "4096"}, "batched-tokens=2048 is less than max-seqs=4096"),
        ({"batched-tokens": "1024", "chunked-prefill": "off"}, "whole request of 2048 tokens"),
        ({"batched-tokens": "4096", "chunked-prefill": "off"}, ""),
        ({"reserved-cpus": "2"}, ""),
        ({"reserved-cpus": "2", "bind": "nobind"}, "only with bind=auto"),
        ({"reserved-cpus": "4"}, "leaves none of the 4 cores"),
        ({"bind": "all-but-1"}, ""),
        ({"bind": "phys"}, "expected auto, nobind, or a list"),
        ({"bind": "2-4"}, "no CPU 4"),
        ({"bind": "0|1"}, "only auto and nobind"),
        ({"block-size": "48"}, "multiples of 32"),
        ({"data-parallel": "2"}, "no knob"),
    ],
)
def test_vllms_rules(knobs, reason):
    found = why("vllm", knobs, version="vllm 0.32.0")
    assert reason in found
    assert bool(reason) == bool(found)


def test_a_rank_for_each_numa_node():
    found = facts(cores=96, memory_gib=384, nodes=2)
    assert why("vllm", {"data-parallel": "2"}, found) == ""
    assert "there are 2" in why("vllm", {"data-parallel": "3"}, found)
    assert "only auto and nobind" in why("vllm", {"data-parallel": "2", "bind": "0-3"}, found)


def test_two_threads_of_a_core():
    found = facts(cores=4, smt=2)
    assert "share its SIMD" in why("vllm", {"bind": "0,4"}, found)
    assert why("vllm", {"bind": "0,5"}, found) == ""


def test_an_allocator_that_would_not_be_used():
    own = graviton(bundled="/venv/vllm/libs/libtcmalloc_minimal.so.4")
    space = space_for("vllm", "m", graviton(allocators={"mimalloc": "/x.so"}), version="0.32.0")
    assert "its own tcmalloc" in broken_rule(space, Candidate({"allocator": "mimalloc"}), own)


def test_memory_of_llama_cpp():
    """Llama-3.1-8B has 14.96 GiB of 16-bit weights, and in f16 131,072 bytes of cache a token
    (32 layers x 8 heads x 128 x 2 x 2): a slot of 8,192 tokens takes 1 GiB."""
    asked = {"planner_for": LLAMA, "context_tokens": 8192}
    small, large = facts(cores=4, memory_gib=14), facts(cores=4, memory_gib=32)
    assert "weights" in why("llama.cpp", {"parallel": "1"}, small, **asked)
    assert why("llama.cpp", {"parallel": "16"}, large, **asked) == ""
    reason = why("llama.cpp", {"parallel": "20"}, large, **asked)
    assert "20 slots of 8,192 tokens need 20.0 GiB of KV cache" in reason
    eight_bits = {"parallel": "20", "cache-type-k": "q8_0", "cache-type-v": "q8_0"}
    assert why("llama.cpp", eight_bits, large, **asked) == ""  # 34 bytes for 32 values: 10.6 GiB


def test_memory_of_vllm():
    asked = {"planner_for": LLAMA, "context_tokens": 4096, "version": "vllm 0.32.0"}
    assert why("vllm", {"kv-space": "16"}, graviton(), **asked) == ""  # 15 + 16 + process of 32
    less = facts(cores=4, memory_gib=31)
    assert "more than the 31.0 GiB" in why("vllm", {"kv-space": "16"}, less, **asked)
    asked["context_tokens"] = 16384  # one request takes 2 GiB
    assert "GiB" in why("vllm", {"kv-space": "1"}, graviton(), **asked)
    assert why("vllm", {"kv-space": "4"}, graviton(), **asked) == ""


def test_gpus():
    asked = {"device": "gpu", "version": "vllm 0.32.0", "planner_for": LLAMA}
    assert why("vllm", {"tensor-parallel": "2"}, h100s(), **asked) == ""
    assert "has 2 GPUs" in why("vllm", {"tensor-parallel": "4"}, h100s(), **asked)
    assert "does not divide" in why("vllm", {"tensor-parallel": "3"}, h100s(4), **asked)


def test_only_what_no_setting_can_beat_is_hopeless():
    """7.5 G weights that a token reads, 16 bits each, on 20 GB/s: 0.75 s, whatever is set."""
    asked = {"found": facts(cores=4, memory_gib=32), "planner_for": LLAMA}
    assert "TPOT would be 754 ms, 7.5 times the 100 ms" in why(
        "llama.cpp", {"threads": "2"}, slo="tpot:p95<100ms", **asked
    )
    assert why("llama.cpp", {"threads": "2"}, slo="tpot:p95<300ms", **asked) == ""
    assert why("llama.cpp", {}, slo="tpot:p95<100ms", **asked) == ""  # the baseline is measured


def test_the_models_shape():
    model = str(llamacpp.demo_model_path())
    long = why("llama.cpp", {"threads": "1"}, planner_for=model, context_tokens=9000)
    assert "longer than the model's 8,192" in long
    assert why("llama.cpp", {"cache-type-k": "q4_0"}, planner_for=model) == ""  # heads of 64
