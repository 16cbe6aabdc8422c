import hashlib
import os

from neoserve.measure.quality.weights import file_digest, score_key, weights_of
from neoserve.schema.engine import EngineConfig


def served(*argv, **more):
    return EngineConfig(engine="vllm", argv=argv, **({"version": "1"} | more))


def test_a_file_is_its_bytes(tmp_path):
    a, b = tmp_path / "a.gguf", tmp_path / "b.gguf"
    a.write_bytes(b"weights" * 1000)
    b.write_bytes(b"weights" * 1000)
    assert file_digest(a) == hashlib.sha256(a.read_bytes()).hexdigest()
    keys = {score_key(served("server", "--model", str(path)), {}) for path in (a, b)}
    assert len(keys) == 1
    b.write_bytes(b"weighty" * 1000)
    os.utime(b, ns=(1, 1))
    assert weights_of(served("server", "-m", str(b))) != weights_of(served("server", "-m", str(a)))


def test_a_folder_is_its_weights_and_config_by_either_door(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "config.json").write_bytes(b"{}")
    before = weights_of(served("vllm", "serve", str(tmp_path), "--dtype", "float32"))
    (tmp_path / "README.md").write_bytes(b"words")
    assert weights_of(served("python", "-m", "vllm", "--model", str(tmp_path))) == before
    (tmp_path / "config.json").write_bytes(b'{"a": 1}')
    assert weights_of(served("vllm", "serve", str(tmp_path))) != before


def test_other_names_are_what_they_say():
    assert weights_of(served("vllm", "serve", "Qwen/Qwen3-8B")) == "Qwen/Qwen3-8B@main"
    assert weights_of(served("vllm", "serve", "Q/Q", "--revision", "v1")) == "Q/Q@v1"
    url = EngineConfig(engine="url", url="http://h:1", model="m")
    assert weights_of(url) == "http://h:1 m"


def test_engine_build_and_settings_are_in_the_key():
    keys = [
        score_key(served("vllm", "serve", "Q/Q", version=version), settings)
        for version in ("1", "2")
        for settings in ({}, {"kv": "fp8"}, {"kv": "auto"})
    ]
    assert len(set(keys)) == 6
