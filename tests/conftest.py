"""Truth files, unpacked once a session into the layout that `neoserve accuracy` reads."""

from __future__ import annotations

import gzip
import json
import signal
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"

# A script's background job has Ctrl-C ignored; programs that the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kv_oracle.jsonl, kv_families.jsonl, kv_capacity.jsonl and model_configs/."""
    folder = tmp_path_factory.mktemp("truth")
    for packed in DATA.glob("*.jsonl.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    (folder / "kv_capacity.jsonl").write_bytes((DATA / "kv_capacity.jsonl").read_bytes())
    configs = folder / "model_configs"
    configs.mkdir()
    for packed in DATA.glob("*configs.json.gz"):
        for name, config in json.loads(gzip.decompress(packed.read_bytes())).items():
            (configs / name).write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def configs() -> dict[str, dict]:
    """Every config.json of the truth set, by file name."""
    found: dict[str, dict] = {}
    for packed in DATA.glob("*configs.json.gz"):
        found.update(json.loads(gzip.decompress(packed.read_bytes())))
    return found
