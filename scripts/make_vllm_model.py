"""A BF16 safetensors model from a GGUF file, for an engine that reads no GGUF; no hub is asked.

Run with a Python that has torch, transformers and gguf, such as vLLM's own:
``python scripts/make_vllm_model.py FILE.gguf FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(source: Path, folder: Path) -> None:
    """Write config, weights and tokenizer of `source` to `folder`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where = {"gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        **where,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # the weights are not quantized any more
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, **where).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
