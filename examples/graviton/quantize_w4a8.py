"""Makes W4A8, one scale a channel: pip install 'llmcompressor==0.14.*', then
python quantize_w4a8.py. It needs no calibration data. Written by make docs."""

import sys

from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import QuantizationModifier

MODEL = 'Qwen/Qwen2.5-1.5B-Instruct'
TARGET = 'qwen-w4a8'

recipe = QuantizationModifier(
    config_groups={
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "symmetric": True,
                "strategy": 'channel',
                "group_size": None,
                "dynamic": False,
                "observer": 'memoryless_mse',
            },
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "symmetric": False,
                "strategy": "token",
                "dynamic": True,
            },
        }
    },
    ignore=["lm_head"],
)

if __name__ == "__main__":
    model = sys.argv[1] if len(sys.argv) > 1 else MODEL
    target = sys.argv[2] if len(sys.argv) > 2 else TARGET
    oneshot(model=model, recipe=recipe, output_dir=target)
