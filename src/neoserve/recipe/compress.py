"""The llm-compressor script that makes a W8A8 or W4A8 checkpoint, and its model card.

Names read from llmcompressor 0.14 and compressed-tensors 0.19.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import AskError
from ..schema.campaign import Recommendation
from ..schema.space import WEIGHTS
from .claims import claims
from .served import served
from .writing import heading


class Scheme(NamedTuple):
    """How weights are rounded; activations are int8, by token, while it runs."""

    bits: int
    group: int | None  # weights that share a scale; null: a whole output channel

    @property
    def title(self) -> str:
        """``W4A8, groups of 32``."""
        weights = f"groups of {self.group}" if self.group else "one scale a channel"
        return f"W{self.bits}A8, {weights}"


def scheme(recommendation: Recommendation) -> Scheme | None:
    """Of the pick's weights, by their name; null where no script is known for it."""
    return scheme_of(recommendation.pick.candidate.knobs.get(WEIGHTS, ""))


def scheme_of(name: str) -> Scheme | None:
    """``w8a8``, ``w4a8-channel``, ``w4a8-g32``; null where no script is known for it."""
    word = name.lower().replace("_", "-")
    if re.fullmatch(r"w8a8(-int8|-channel(wise)?)?", word):
        return Scheme(8, None)
    if re.fullmatch(r"w4a8-c(hannel(wise)?)?", word):
        return Scheme(4, None)
    # As in the catalog, w4a8 alone has groups of 32.
    if match := re.fullmatch(r"w4a8(?:-int8?|-g(?:roup)?-?(\d+)?|-groupwise)?", word):
        return Scheme(4, int(match[1] or 32))
    return None


def base_model(recommendation: Recommendation) -> str:
    """What the baseline served, "" where no trial says."""
    trial = recommendation.baseline_trial
    return served(trial.engine).model if trial else ""


def _made_from(recommendation: Recommendation) -> tuple[Scheme, str]:
    found, base = scheme(recommendation), base_model(recommendation)
    if found is None:
        raise AskError(
            f"the pick ({recommendation.pick.candidate.show()}) has no {WEIGHTS} whose name "
            "says what llm-compressor is to make; known: w8a8, w4a8, w4a8-channel, w4a8-g32"
        )
    if not base:
        raise AskError("no trial of the baseline says which model the checkpoint was made from")
    return found, base


def compress_script(recommendation: Recommendation, head: str = "") -> str:
    """quantize.py. Raises AskError where the pick is not quantized, or from nobody knows what."""
    found, base = _made_from(recommendation)
    target = served(recommendation.config, says=claims(recommendation), head=head)
    top = heading(
        target,
        f"Makes {found.title}: pip install 'llmcompressor==0.14.*', then python quantize.py",
        "It needs no calibration data: weights are rounded as they are. Made anew it is not bit "
        "for bit the checkpoint that was measured: check its quality before it serves.",
    )
    return top + script(found, base, target.model.rstrip("/").rpartition("/")[2])


def script(found: Scheme, model: str, target: str) -> str:
    """What makes `target`, a folder, from `model` by llm-compressor; both may be given to it."""
    return _SCRIPT.format(
        model=model,
        target=target,
        bits=found.bits,
        strategy="group" if found.group else "channel",
        group=found.group,
        # vLLM takes both; Arm's own guide has asymmetric activations with 4-bit weights.
        symmetric=found.bits == 8,
        observer="memoryless_mse" if found.bits == 4 else "memoryless_minmax",
    )


_SCRIPT = '''
import sys

from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import QuantizationModifier

MODEL = {model!r}
TARGET = {target!r}

recipe = QuantizationModifier(
    config_groups={{
        "group_0": {{
            "targets": ["Linear"],
            "weights": {{
                "num_bits": {bits},
                "type": "int",
                "symmetric": True,
                "strategy": {strategy!r},
                "group_size": {group},
                "dynamic": False,
                "observer": {observer!r},
            }},
            "input_activations": {{
                "num_bits": 8,
                "type": "int",
                "symmetric": {symmetric},
                "strategy": "token",
                "dynamic": True,
            }},
        }}
    }},
    ignore=["lm_head"],
)

if __name__ == "__main__":
    model = sys.argv[1] if len(sys.argv) > 1 else MODEL
    target = sys.argv[2] if len(sys.argv) > 2 else TARGET
    oneshot(model=model, recipe=recipe, output_dir=target)
'''


def model_card(recommendation: Recommendation, head: str) -> str:
    """MODEL_CARD.md of a quantized winner. Raises AskError as `compress_script` does."""
    import yaml

    found, base = _made_from(recommendation)
    front = {
        **({} if base.startswith("/") else {"base_model": base,
                                            "base_model_relation": "quantized"}),
        "library_name": "vllm",
        "pipeline_tag": "text-generation",
        "tags": [f"w{found.bits}a8", "int8" if found.bits == 8 else "int4", "compressed-tensors",
                 "llm-compressor", "vllm", "neoserve"],
    }  # fmt: skip
    name = served(recommendation.config).model.rstrip("/").rpartition("/")[2]
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, width=10_000).rstrip("\n"),
        "---",
        "",
        f"# {name}",
        "",
        f"{found.title} of `{base}`: linear layers but `lm_head`, activations int8 by token. "
        "`quantize.py` makes such a checkpoint with llm-compressor; whether it made the one that "
        "was measured is not recorded.",
        "",
        "## What was measured",
        "",
        *(f"- {sentence}" for sentence in claims(recommendation)),
        "",
        f"Configuration: {recommendation.pick.candidate.show()}; "
        f"{recommendation.config.version or recommendation.config.engine}.",
        "",
        "## Limits",
        "",
        "- Perplexity within a budget does not prove that every task is unharmed: check yours.",
        "- The licence is the base model's: add its `license` above before publishing.",
        "",
        f"Evidence: ledger head `{head}`.",
    ]
    return "\n".join(lines) + "\n"
