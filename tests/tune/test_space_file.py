import json
import tomllib

import pytest

from neoserve.errors import AskError
from neoserve.schema.space import Candidate
from neoserve.tune.candidates import candidates
from neoserve.tune.space import arguments, space_for, variables
from neoserve.tune.space_file import (
    applied,
    parse_sweep,
    parse_toml,
    read_space_file,
    space_toml,
)

from .hosts import facts, graviton

EXAMPLE = """
drop = ["poll", "cache-type-k", "cache-type-v"]

[knobs.threads]
values = [1, 2]

[knobs.no-repack]
flag = "--no-repack"
off_flag = "--repack"
values = ["off", "on"]
default = "off"
changes_output = true

[knobs.spin]
env = "GOMP_SPINCOUNT"
values = [0, 1000]

[pins]
"--cache-reuse" = 256
"--mlock" = true
OMP_NUM_THREADS = "1"
"--flash-attn" = "off"

[checkpoints]
q8_0 = "/models/q8.gguf"

[[candidates]]
threads = 1
parallel = 8

[[candidates]]
threads_batch = 2
no-repack = true
"""


def llama(**more):
    return space_for("llama.cpp", "m.gguf", facts(cores=4), **more)


def test_a_file_narrows_widens_and_pins():
    file = parse_toml(EXAMPLE)
    space = applied(llama(checkpoints=file.checkpoints), file)
    names = [knob.name for knob in space.knobs]
    assert space.knob("threads").values == ("1", "2")
    assert space.knob("threads").flag == "--threads"
    assert not {"poll", "cache-type-k", "cache-type-v", "flash-attn"} & set(names)
    assert space.knob("weights").value_of == {"q8_0": "/models/q8.gguf"}
    assert space.knob("no-repack").changes_output
    assert space.knob("spin").values == ("0", "1000")
    assert "poll: dropped by space file" in space.notes
    assert "flash-attn: pinned by space file" in space.notes
    assert space.given == (
        Candidate({"threads": "1", "parallel": "8"}, "given"),
        Candidate({"threads-batch": "2", "no-repack": "on"}, "given"),
    )
    pinned = ("--cache-reuse", "256", "--mlock", "--flash-attn", "off")
    assert arguments(space, Candidate({})) == pinned
    assert arguments(space, Candidate({"no-repack": "on", "spin": "0"})) == (
        "--no-repack", *pinned,
    )  # fmt: skip
    assert variables(space, Candidate({"spin": "0"})) == {
        "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    assert candidates(space, facts(cores=4), limit=3).candidates[1:3] == space.given


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("drop = [", "is not valid TOML"),
        ("[knob.threads]\nvalues = [1]", r"key 'knob'.*did you mean knobs\?"),
        ("[knobs.threads]\nvalue = [1]", r"'value'.*did you mean values\?"),
        ("[knobs.thread]\nvalues = [1]", r"no knob of llama.cpp; did you mean threads\?"),
        ("[knobs.foo]\nvalues = [1]", 'needs flag = "--…" or env = "…", and values'),
        ("[knobs.threads]\nvalues = []", "values is empty"),
        ("[knobs.threads]\nvalues = 1", r"expected a list, such as \[1, 2\]"),
        ("[knobs.threads]\nvalues = [[1]]", "expected a word, a number"),
        ("[knobs.threads]\nvalues = [1]\nrestart = 3", "knobs.threads"),
        ("knobs = 3", "expected a table"),
        ('drop = ["pol"]', r"did you mean poll\?"),
        ('[pins]\n"--x" = false', "is false; pin the flag that turns it off"),
        ("[pins]\nctx-size = 3", 'expected a flag such as "--ctx-size" or a variable'),
        ("[[candidates]]\nthread = 1", r"'thread'.*did you mean threads\?"),
        ("candidates = 3", r"\[\[candidates\]\]"),
        ("[knobs.weights]\nvalues = ['q4']", "no knob of llama.cpp"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(text, complaint):
    with pytest.raises(AskError, match=complaint):
        applied(llama(), parse_toml(text, "a.toml"))


def test_a_checkpoint_has_to_be_one_that_was_given():
    file = parse_toml("[knobs.weights]\nvalues = ['q8']")
    with pytest.raises(AskError, match=r"'q8'.*did you mean q8_0\?"):
        applied(llama(checkpoints={"q8_0": "/m/q8.gguf"}), file)


# docs.vllm.ai, benchmarking/sweeps: "Example serve_hparams.json", and its named form.
SWEEP = [
    {"max_num_seqs": 32, "max_num_batched_tokens": 1024},
    {"max_num_seqs": 64, "max_num_batched_tokens": 1024},
    {"max-num-seqs": 128, "enable_prefix_caching": False},
    {"compilation_config.use_inductor": True, "async-scheduling": True},
    {"compilation_config": {"mode": 3}},
]


def test_vllms_sweep_is_a_list_of_points():
    space = applied(space_for("vllm", "m", graviton()), parse_sweep(json.dumps(SWEEP)))
    assert [c.knobs for c in space.given] == [
        {"max-seqs": "32", "batched-tokens": "1024"},
        {"max-seqs": "64", "batched-tokens": "1024"},
        {"max-seqs": "128", "prefix-caching": "off"},
        {"compilation-config.use_inductor": "true", "async-scheduling": "on"},
        {"compilation-config": '{"mode": 3}'},
    ]
    words = [arguments(space, c)[:-2] for c in space.given]  # less the pinned context
    assert words == [
        ("--max-num-batched-tokens", "1024", "--max-num-seqs", "32"),
        ("--max-num-batched-tokens", "1024", "--max-num-seqs", "64"),
        ("--no-enable-prefix-caching",),  # 128 is what vLLM does by itself
        ("--compilation-config.use_inductor", "true", "--async-scheduling"),
        ("--compilation-config", '{"mode": 3}'),
    ]


def test_a_named_sweep_is_the_same():
    named = {f"run{i}": point for i, point in enumerate(SWEEP)}
    plain = [{"_benchmark_name": name, **point} for name, point in named.items()]
    made = [parse_sweep(json.dumps(data)).candidates for data in (SWEEP, named, plain)]
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "is not valid JSON"),
        ("3", "expected a list of objects"),
        ("[3]", "expected a list of objects"),
        ('[{"max_num_seqs": [1, 2]}]', "expected a word, a number"),
    ],
)
def test_what_is_no_sweep(text, complaint):
    with pytest.raises(AskError, match=complaint):
        parse_sweep(text, "s.json")


def test_files_are_told_by_their_ending(tmp_path):
    for name, text in {"a.toml": EXAMPLE, "a.json": json.dumps(SWEEP)}.items():
        (tmp_path / name).write_text(text)
        assert read_space_file(tmp_path / name).candidates
    (tmp_path / "a.yaml").write_text("x: 1")
    with pytest.raises(AskError, match=r"ends in \.toml, or \.json"):
        read_space_file(tmp_path / "a.yaml")
    with pytest.raises(AskError, match="No such file"):
        read_space_file(tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(AskError, match="space file"):
        read_space_file(tmp_path / "b.toml")


def test_a_space_written_as_a_file_is_read_as_itself():
    for space in (llama(), space_for("vllm", "m", graviton(), version="vllm 0.32.0")):
        text = space_toml(space)
        assert tomllib.loads(text)["knobs"].keys() == {knob.name for knob in space.knobs}
        assert applied(space, parse_toml(text)) == space
