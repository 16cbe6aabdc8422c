"""examples/space.toml on the host that it is written for."""

from pathlib import Path

from neoserve.recipe.compress import Scheme, scheme
from neoserve.schema.space import WEIGHTS, Candidate
from neoserve.tune.candidates import candidates
from neoserve.tune.space import arguments, space_for, variables
from neoserve.tune.space_file import applied, read_space_file
from recipe.sample import graviton as recommended_on_graviton

from .hosts import graviton

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "space.toml"
TCMALLOC = "/usr/lib/aarch64-linux-gnu/libtcmalloc_minimal.so.4"


def example():
    file, facts = read_space_file(EXAMPLE), graviton(allocators={"tcmalloc": TCMALLOC})
    space = space_for("vllm", "models/qwen", facts, version="vllm 0.32.0",
                      checkpoints=file.checkpoints)  # fmt: skip
    return applied(space, file), facts


def test_it_is_what_it_says():
    space, _ = example()
    values = {knob.name: knob.values for knob in space.knobs}
    assert not {"eager", "block-size", "prefix-caching"} & values.keys()
    assert values["allocator"] == ("glibc", "tcmalloc")
    assert values["reserved-cpus"] == ("1", "2", "4")
    assert values["max-seqs"] == ("16", "32", "64", "128")
    assert values[WEIGHTS] == ("w8a8", "w4a8-channel", "w4a8-g32")
    assert {knob.name for knob in space.knobs if knob.changes_output} == {WEIGHTS}


def test_each_value_is_one_that_the_engine_gets():
    """`all-but-2` of 16 cores is a list of CPUs, and no name is passed on as it is."""
    space, _ = example()
    bind = space.knob("bind")
    assert {v: variables(space, Candidate({"bind": v})).get(bind.env) for v in bind.values} == {
        "auto": None,  # vLLM's own
        "all-but-1": "0-14", "all-but-2": "0-13", "all-but-4": "0-11",
    }  # fmt: skip
    preload = Candidate({"allocator": "tcmalloc"})
    assert variables(space, preload)["LD_PRELOAD"] == TCMALLOC


def test_its_points_come_first_and_all_may_start():
    space, facts = example()
    listed = candidates(space, facts, limit=12)
    first = [(c.origin, c.knobs) for c in listed.candidates[:3]]
    assert first == [
        ("default", {}),
        ("given", {"allocator": "tcmalloc", "bind": "all-but-2"}),
        ("given", {"allocator": "tcmalloc", "bind": "all-but-2", "max-seqs": "64",
                   "weights": "w8a8"}),
    ]  # fmt: skip
    words = arguments(space, listed.candidates[2])
    assert words[words.index("--max-num-seqs") + 1] == "64"
    assert words[words.index("--dtype") + 1] == "bfloat16"


def test_a_recipe_knows_its_checkpoints_by_their_names():
    space, _ = example()
    r = recommended_on_graviton()
    made = {}
    for name in space.knob(WEIGHTS).values:
        candidate = r.pick.candidate.replace(knobs={WEIGHTS: name})
        made[name] = scheme(r.replace(pick=r.pick.replace(candidate=candidate)))
    assert made == {"w8a8": Scheme(8, None), "w4a8-channel": Scheme(4, None),
                    "w4a8-g32": Scheme(4, 32)}  # fmt: skip
