"""Which calls of Arm Performix are made: its own program is not to be had here, so a script stands
in for it that answers in the shapes that Arm's MCP server reads (arm/mcp, utils/apx.py)."""

import json

import pytest

from neoserve.errors import AskError, EngineFailed
from neoserve.measure.pmu.performix import find_apx, prepare, profile

TABLE = "┃ metric ┃ value ┃\n┃ Retiring ┃ 40.01 ┃\n"


@pytest.fixture
def apx(tmp_path, monkeypatch):
    """A program that writes down its arguments, and answers."""
    script = tmp_path / "apx"
    answers = {
        "recipe run": 'progress\n{"data":{"run_id":{"value":"a4a6bfa226ed"}}}',
        "run render": '{"data":{"invocation":{"session_id":"s-1"}}}',
        "render query": TABLE,
    }
    cases = "\n".join(f"'{key}') cat <<'END'\n{text}\nEND\n;;" for key, text in answers.items())
    script.write_text(
        f"#!/bin/sh\nfor a in \"$@\"; do printf '%s\\0' \"$a\" >> {tmp_path}/calls; done\n"
        f"echo >> {tmp_path}/calls\ncase \"$1 $2\" in\n{cases}\nesac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def calls(folder):
    return [line.rstrip("\0").split("\0") for line in (folder / "calls").read_text().splitlines()]


def test_the_flow_is_the_documented_one(apx):
    program = find_apx()
    prepare(program, "ubuntu@10.0.0.7:22:/keys/id", "g4")
    found = profile(program, "g4", 4711, 30.0, lambda _: None)
    assert found.run_id == "a4a6bfa226ed"
    assert found.table.rstrip("\n") == TABLE.rstrip("\n")
    made = calls(apx)
    assert [call[:2] for call in made] == [
        ["target", "add"], ["target", "prepare"], ["recipe", "ready"], ["recipe", "run"],
        ["run", "render"], ["render", "query"],
    ]  # fmt: skip
    assert made[5][2] == "s-1"
    assert made[3] == [
        "recipe", "run", "cpu_microarchitecture", "--target", "g4", "--pid", "4711", "--timeout",
        "30", "--deploy-tools", "--json", "--param", "metrics_group=topdown_l1",
    ]  # fmt: skip
    words = {word for call in made for word in call}
    assert not words & {"--output", "--format", "--binary", "topdown", "compare"}  # do not exist


def test_its_own_words_are_passed_on(tmp_path, monkeypatch):
    script = tmp_path / "apx"
    script.write_text(
        "#!/bin/sh\necho 'requires 3 or more PMU counters. CPU 0 has only 2.' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EngineFailed, match="apx recipe ready failed: requires 3 or more PMU"):
        profile(find_apx(), "g4", 1, 5.0, lambda _: None)


def test_a_run_that_names_none_is_a_failure(apx):
    script = apx / "apx"
    script.write_text("#!/bin/sh\necho '" + json.dumps({"data": {}}) + "'\n")
    with pytest.raises(EngineFailed, match="named no run"):
        profile(find_apx(), "g4", 1, 5.0, lambda _: None)


def test_without_it_the_answer_says_where_it_is_from(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AskError, match=r"developer\.arm\.com"):
        find_apx()
