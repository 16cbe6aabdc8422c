"""Which files there are, and what they claim."""

import ast

import pytest
import yaml

from neoserve.errors import AskError
from neoserve.recipe.bundle import KINDS, bundle
from neoserve.recipe.claims import claims
from neoserve.recipe.compress import scheme
from neoserve.recipe.served import served_by
from neoserve.recipe.shell import run_script
from neoserve.schema.campaign import Gain

from .readers import load
from .sample import BF16, EVERY, HEAD, LLAMACPP, QUALITY, W8A8, gpu, graviton, llamacpp, trial

COMMON = {"README.md", "run.sh", "compose.yaml", "kubernetes.yaml", "cost.json", "cost.md"}


@pytest.mark.parametrize(
    ("make", "more"),
    [
        (llamacpp, {"neoserve-smollm2-135m-q4-1.service", "Dockerfile"}),
        (graviton, {"neoserve-qwen2-5-1-5b-w8a8.service", "kserve.yaml", "config.yml", "env.sh",
                    "quantize.py", "MODEL_CARD.md"}),
        (gpu, {"neoserve-qwen3-32b.service", "kserve.yaml", "config.yml", "env.sh"}),
    ],
)  # fmt: skip
def test_files_that_apply(make, more):
    made = bundle(make(), HEAD)
    assert made.files.keys() == COMMON | more
    assert made.left_out == {}
    for name, text in made.files.items():
        assert text.endswith("\n"), name
        assert HEAD in text or name == "config.yml", name
    assert all(f"`{name}`" in made.files["README.md"] for name in made.files if name != "README.md")


def test_one_kind_alone():
    for kind in KINDS:
        for make in EVERY.values():
            try:
                files = bundle(make(), HEAD, to=(kind,)).files
            except AskError:
                assert kind in ("kserve", "vllm", "checkpoint")
                continue
            assert 1 <= len(files) <= 2
    with pytest.raises(AskError, match="no recipe helm; known: run, compose"):
        bundle(gpu(), HEAD, to=("helm",))
    with pytest.raises(AskError, match=r"runs vLLM, not llama\.cpp: use --to k8s"):
        bundle(llamacpp(), HEAD, to=("kserve",))


def test_libraries_of_the_host():
    """A known allocator is installed; another file cannot be, and what needs it is left out."""
    mimalloc = W8A8.replace(env={"LD_PRELOAD": "/opt/libmimalloc.so.2.1"})
    made = bundle(graviton(config=mimalloc), HEAD)
    assert "install --yes --no-install-recommends libmimalloc-dev" in made.files["Dockerfile"]
    service = load(made.files["compose.yaml"])["services"]["vllm"]
    assert service["build"] == "."
    assert service["environment"]["LD_PRELOAD"] == "libmimalloc.so"
    assert set(made.left_out) == {"kserve.yaml"}
    assert "`kserve.yaml`: the official image lacks libmimalloc-dev" in made.files["README.md"]
    other = W8A8.replace(env={"LD_PRELOAD": "/opt/libmine.so:/usr/lib/libjemalloc.so.2"})
    made = bundle(graviton(config=other), HEAD)
    assert set(made.left_out) == {"compose.yaml", "kubernetes.yaml", "kserve.yaml"}
    assert "Dockerfile" not in made.files
    assert "/opt/libmine.so" in made.files["run.sh"]
    with pytest.raises(AskError, match="names files of the host that was measured"):
        bundle(graviton(config=other), HEAD, to=("compose",))
    openmp = W8A8.replace(env={"LD_PRELOAD": "/x/libtcmalloc.so.4:/x/libiomp5.so"})
    assert "LD_PRELOAD" not in load(
        bundle(graviton(config=openmp), HEAD).files["compose.yaml"]
    )["services"]["vllm"].get("environment", {})


def test_a_relative_model_has_no_container():
    config = LLAMACPP.replace(argv=("llama-server", "-m", "x.gguf"), env={})
    made = bundle(llamacpp(config=config), HEAD)
    assert made.left_out["compose.yaml"].startswith("model 'x.gguf' is not an absolute path")


def test_a_gain_that_may_be_none_is_said_to_be_unproven():
    unsure = graviton().gain.replace(low=0.9)
    assert claims(graviton().replace(gain=unsure))[2] == (
        "Gain over the engine's defaults: 1.40x (0.90 to 1.60, outside of it with a chance of "
        "10%); none is proven."
    )


def test_claims_are_the_documents_numbers():
    assert claims(graviton()) == (
        "Certified: 4.20 requests/s (poisson arrivals, 512 prompt and 128 output tokens) keep "
        "ttft:p95<3.00 s; tpot:p95<200 ms; quality<4.00%; wrong with a chance of at most 2.5 %.",
        "Measured there, over 800 requests: TTFT p95 1.21 s (1.10 s to unbounded); "
        "TPOT p95 1.21 s (1.10 s to unbounded).",
        "Gain over the engine's defaults: 1.40x (1.25 to 1.60, outside of it with a chance of "
        "10%).",
        "Quality: word perplexity +1.2% (+0.4% to +2.0%), budget +4.0%: PASS.",
        "Price: $0.638 an hour (c8g.4xlarge: published, AWS us-east-1 on-demand, 2026-07-20).",
    )


def test_what_is_not_known_is_said():
    r = llamacpp(trial=None, gain=Gain(None, None, None, 0.05, "the baseline was not certified"))
    pick = r.pick.replace(
        capacity=r.pick.capacity.replace(certified_rps=None),
        quality=QUALITY.replace(change_share=None, low=None, high=None, verdict="FAIL",
                                reason="no log probabilities"),
        reason="the budget ended",
    )  # fmt: skip
    text = bundle(r.replace(pick=pick), HEAD).files["README.md"]
    for sentence in (
        "Not certified for ttft:p95<3.00 s; tpot:p95<200 ms; quality<4.00%: the budget ended.",
        "Gain over the engine's defaults: not stated: the baseline was not certified.",
        "Quality: FAIL: no log probabilities.",
        "Price: no price is known, so no cost is stated.",
        "It was measured on a host that no trial describes",
    ):
        assert sentence in text


def test_a_reason_stays_in_its_comment():
    r = llamacpp(gain=Gain(None, None, None, 0.05, "crashed:\nrm -rf /\x00\x1b[0m\u2028x"))
    told = "Gain over the engine's defaults: not stated: crashed: rm -rf / [0m x."
    for name, text in bundle(r, HEAD).files.items():
        lines = [line for line in text.splitlines() if "rm -rf / " in line]
        if name.endswith((".sh", ".yaml", ".service", "Dockerfile")):
            assert lines == [f"# {told}"]
        elif name == "README.md":
            assert lines == [f"- {told}"]
        assert "\x1b" not in text
    assert load(bundle(r, HEAD).files["compose.yaml"])["services"]
    assert run_script(served_by(r)).startswith("#!/bin/sh\n# Written by NeoServe.\n")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("w8a8", (8, None)),
        ("W8A8-int8", (8, None)),
        ("w4a8-channel", (4, None)),
        ("w4a8_channelwise", (4, None)),
        ("w4a8", (4, 32)),
        ("w4a8-g32", (4, 32)),
        ("w4a8-group64", (4, 64)),
        ("w4a8-groupwise", (4, 32)),
        ("bf16", None),
        ("q8_0", None),
        ("w4a16", None),
        ("w4a8-fp8", None),
    ],
)
def test_schemes_by_the_name_of_a_checkpoint(word, found):
    r = graviton()
    r = r.replace(pick=r.pick.replace(candidate=r.pick.candidate.replace(
        knobs={"weights": word})))  # fmt: skip
    assert scheme(r) == found
    files = bundle(r, HEAD).files
    assert ("quantize.py" in files) == (found is not None)
    if found is None:
        with pytest.raises(AskError, match="known: w8a8, w4a8, w4a8-channel, w4a8-g32"):
            bundle(r, HEAD, to=("checkpoint",))
        return
    arguments = modifier(files["quantize.py"])
    weights = arguments["config_groups"]["group_0"]["weights"]
    bits, group = found
    assert (weights["num_bits"], weights["group_size"]) == (bits, group)
    assert weights["strategy"] == ("group" if group else "channel")
    assert arguments["ignore"] == ["lm_head"]


def modifier(script):
    """The literal arguments of QuantizationModifier."""
    tree = ast.parse(script)
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    assert names == {"oneshot", "QuantizationModifier"}
    (call,) = (n for n in ast.walk(tree) if isinstance(n, ast.Call)
               and getattr(n.func, "id", "") == "QuantizationModifier")  # fmt: skip
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}


def test_a_script_needs_to_know_its_base():
    made = bundle(graviton(baseline_trial=None), HEAD)
    assert set(made.left_out) == {"quantize.py", "MODEL_CARD.md"}
    assert "which model the checkpoint was made from" in made.left_out["quantize.py"]


def test_the_model_card_opens_with_what_the_hub_reads():
    text = bundle(graviton(), HEAD).files["MODEL_CARD.md"]
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front) == {
        "base_model": "Qwen/Qwen2.5-1.5B-Instruct", "base_model_relation": "quantized",
        "library_name": "vllm", "pipeline_tag": "text-generation",
        "tags": ["w8a8", "int8", "compressed-tensors", "llm-compressor", "vllm", "neoserve"],
    }  # fmt: skip
    assert body.startswith("\n# Qwen2.5-1.5B.w8a8\n")
    local = BF16.replace(argv=("vllm", "serve", "/models/base"))
    text = bundle(graviton(baseline_trial=trial(local)), HEAD).files["MODEL_CARD.md"]
    assert "base_model" not in text.split("---\n")[1]  # a path is no name on the hub
