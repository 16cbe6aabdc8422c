"""The quality guard on five precisions of one model, and lm_eval on a real vLLM."""

from __future__ import annotations

import math
import os

import pytest

from neoserve.measure.engine import llamacpp, vllm
from neoserve.measure.engine.running import start
from neoserve.measure.quality import Documents, score, shipped
from neoserve.measure.quality.lm_eval import PYTHON_VARIABLE, score_by_lm_eval
from neoserve.measure.quality.variants import KINDS, make_variant
from neoserve.tune.guard import check

PROOF = "NEOSERVE_QUALITY_PROOF"

# torch 2.13 in float32 on the shipped text, with weights dequantized by transformers 5.19
TORCH_PERPLEXITY = 626.73


@pytest.mark.engine
@pytest.mark.skipif(PROOF not in os.environ, reason=f"minutes; needs {PROOF}: make quality-proof")
def test_precisions_are_told_apart(tmp_path, capsys):
    models = {"bundled": llamacpp.demo_model_path()}
    models |= {kind: make_variant(models["bundled"], kind, tmp_path / f"{kind}.gguf")
               for kind in KINDS}  # fmt: skip
    scores = {}
    for kind, path in models.items():
        config = llamacpp.config(path, threads=1, parallel=2, context_tokens=512,
                                 extra=("--poll", "0"))  # fmt: skip
        with start(config, tmp_path / "engine.log") as engine:
            scores[kind] = score(engine, shipped(), {})
    found = {kind: check(scores["f16"], scores[kind]) for kind in models}
    with capsys.disabled():
        print()
        for kind, checked in found.items():
            told = f"{checked.verdict} {checked.reason}"
            print(f"{kind:8} {scores[kind].word_perplexity:8.2f}  {told}")
    assert scores["f16"].word_perplexity == pytest.approx(TORCH_PERPLEXITY, rel=0.005)
    # F16 holds the numbers of the 4-bit file; what is left is how activations are rounded
    assert abs(found["bundled"].change_share) < 0.02
    assert found["q8_0"].verdict == "PASS"
    assert check(scores["q8_0"], scores["q4_0"]).low > 0
    assert found["damaged"].verdict == "FAIL"
    assert len({made.key for made in scores.values()}) == 5


@pytest.mark.vllm
@pytest.mark.skipif(PYTHON_VARIABLE not in os.environ, reason=f"needs {PYTHON_VARIABLE}")
def test_lm_eval_and_echo_agree_on_vllm(model, tmp_path):
    """They differ in the first token, which lm_eval scores after the tokenizer's BOS."""
    env = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    args = ("--enforce-eager", "--max-model-len", "1024", "--dtype", "bfloat16")
    text = shipped(20)
    few = Documents(text.name, text.texts[:6])
    with start(vllm.config(model, args, env), tmp_path / "vllm.log") as engine:
        echoed = score(engine, few, {})
        found = score_by_lm_eval(engine, few, {}, tokenizer=model)
    assert echoed.method == "echo"
    for ours, theirs in zip(echoed.documents, found.documents, strict=True):
        assert theirs.num_words == ours.num_words == 20
        assert theirs.num_tokens == ours.num_tokens + 1
        # at worst one token of the vocabulary's 49,152 alike, and at best nothing
        assert -2 * math.log(49_152) < theirs.logprob - ours.logprob < 0
    words = sum(document.num_words for document in echoed.documents)
    lost = -sum(document.logprob for document in echoed.documents)
    assert echoed.word_perplexity == pytest.approx(math.exp(lost / words))
