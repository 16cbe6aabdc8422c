"""Variants of a GGUF model at other precisions: what the quality guard is shown to tell apart.

``python scripts/make_gguf_variants.py FOLDER [FILE.gguf] [KIND ...]``: of the demo's model, and
all kinds, where they are left out. Needs neoserve[demo].
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from neoserve.errors import Error
from neoserve.measure.engine.llamacpp import demo_model_path
from neoserve.measure.quality.variants import KINDS, make_variant


def main(words: list[str]) -> None:
    """Write the variants to a folder, with how long each took and how large it is."""
    if not words:
        sys.exit(__doc__)
    named = [word for word in words[1:] if word.endswith(".gguf")]
    source = Path(named[0]) if named else demo_model_path()
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    for kind in [word for word in words[1:] if not word.endswith(".gguf")] or KINDS:
        began_s = time.monotonic()
        out = make_variant(source, kind, folder / f"{source.name.split('.')[0]}.{kind}.gguf")
        print(f"{out}  {out.stat().st_size / 1e6:.0f} MB  {time.monotonic() - began_s:.1f} s")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Error as error:
        sys.exit(f"make_gguf_variants: {error}")
