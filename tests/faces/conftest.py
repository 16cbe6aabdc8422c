"""The command line in this process: exit code, stdout and stderr of one call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from neoserve.faces.cli import main

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


Cli = Callable[..., Said]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main(words)
        except SystemExit as stop:  # argparse's --help
            code = int(stop.code or 0)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(cli: Cli) -> Callable[..., str]:
    """The one sentence with which a bad ask ends."""

    def run(*words: str) -> str:
        said = cli(*words)
        assert said.code == 2, said
        assert said.out == ""
        assert said.err.startswith("neoserve: ")
        assert said.err.endswith("\n")
        assert said.err.count("\n") == 1
        assert len(said.err) < 900
        assert "Traceback" not in said.err
        return said.err

    return run


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """A folder with a Llama-3-8B-like config.json, some fields changed; None takes one away."""

    def make(name: str = "my-llama", **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        fields = {k: v for k, v in (LLAMA | changes).items() if v is not None}
        (folder / "config.json").write_text(json.dumps(fields))
        return folder

    return make
