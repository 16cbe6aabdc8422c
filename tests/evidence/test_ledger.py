import bisect
import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError, Error, EvidenceBroken
from neoserve.evidence import ledger

LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
BODY = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc√", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text("xyz", max_size=2), BODY, max_size=3)
BODIES = st.lists(OBJECT, min_size=1, max_size=5)
SHARED_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)


def written(path, bodies):
    path.unlink(missing_ok=True)
    for body in bodies:
        ledger.append(path, "note", body)
    return path.read_bytes()


@SHARED_FOLDER
@given(bodies=BODIES)
def test_what_is_written_holds_and_reads_back(tmp_path, bodies):
    path = tmp_path / "ledger.jsonl"
    written(path, bodies)
    head = ledger.verify(path)
    assert ledger.verify(path, head) == head
    assert [entry.body for entry in ledger.entries(path)] == bodies


@SHARED_FOLDER
@given(bodies=BODIES, data=st.data())
def test_any_changed_deleted_or_inserted_byte_is_found(tmp_path, bodies, data):
    path = tmp_path / "ledger.jsonl"
    true = written(path, bodies)
    head = ledger.verify(path)
    at = data.draw(st.integers(0, len(true) - 1))
    byte = bytes([data.draw(st.integers(0, 255))])
    forged = data.draw(
        st.sampled_from([true[:at] + byte + true[at + 1 :], true[:at] + true[at + 1 :],
                         true[:at] + byte + true[at:]])
    )  # fmt: skip
    path.write_bytes(forged)
    if forged == true:
        assert ledger.verify(path, head) == head
        return
    with pytest.raises(EvidenceBroken, match=r"line \d+"):
        ledger.verify(path, head)


@SHARED_FOLDER
@given(bodies=BODIES, data=st.data())
def test_moved_dropped_and_repeated_lines_are_found(tmp_path, bodies, data):
    path = tmp_path / "ledger.jsonl"
    lines = written(path, bodies).splitlines(keepends=True)
    head = ledger.verify(path)
    kind = data.draw(st.sampled_from(["permute", "drop", "repeat"]))
    if kind == "permute":
        forged = list(data.draw(st.permutations(lines)))
    else:
        at = data.draw(st.integers(0, len(lines) - 1))
        forged = lines[:at] + lines[at + (kind == "drop") :]
        forged = forged if kind == "drop" else [*lines[: at + 1], *lines[at:]]
    if forged == lines:
        return
    path.write_bytes(b"".join(forged))
    with pytest.raises(EvidenceBroken):
        ledger.verify(path, head)


def test_a_rewritten_last_line_is_found_only_by_its_published_head(tmp_path):
    path = tmp_path / "ledger.jsonl"
    written(path, [{"a": 1}, {"a": 2}])
    head = ledger.verify(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b'"a":2', b'"a":3'))
    assert ledger.verify(path) != head
    with pytest.raises(EvidenceBroken, match=r"line 2: no line has the published head"):
        ledger.verify(path, head)


def test_a_ledger_that_grew_still_has_its_published_head(tmp_path):
    path = tmp_path / "ledger.jsonl"
    written(path, [{}])
    head = ledger.verify(path)
    ledger.append(path, "note", {})
    assert ledger.verify(path, head) != head


def test_the_chain_is_what_sha256sum_says(tmp_path):
    path = tmp_path / "ledger.jsonl"
    written(path, [{"a": 1}, {"b": 2}])
    script = f"head -n 1 {path} | sha256sum | cut -c1-64; tail -n 1 {path} | sha256sum | cut -c1-64"
    shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    first, last = shell.stdout.split()
    entries = ledger.entries(path)
    assert entries[0].prev == ledger.GENESIS == "0" * 64
    assert entries[1].prev == first
    assert ledger.verify(path) == last


def test_the_message_names_the_line(tmp_path):
    path = tmp_path / "ledger.jsonl"
    lines = written(path, [{"n": i} for i in range(4)]).splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b'"n":1', b'"n":7'), *lines[2:]]))
    with pytest.raises(EvidenceBroken, match=r"line 3: prev is"):
        ledger.verify(path)


def forged(**changes):
    entry = {"v": 2, "seq": 0, "prev": ledger.GENESIS, "kind": "k", "at": "t", "body": {}} | changes
    return ledger.canonical(entry) + b"\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: the ledger holds no entry"),
        (forged(seq=1), "line 1: seq is 1, not 0"),
        (forged(prev="1" * 64), "line 1: prev is"),
        (forged()[:-1], "line 1: torn"),
        (forged().replace(b",", b", "), "line 1: not in canonical form"),
        (forged(extra=1), "line 1: entry"),
        (b"[" * 5000 + b"\n", "line 1"),
        (b"\xff\xfe\n", "line 1: no JSON"),
        (b"[]\n", "line 1: entry"),
        (forged() + b"\n", "line 2: no JSON"),
    ],
)
def test_forged_lines(tmp_path, data, message):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(data)
    with pytest.raises(EvidenceBroken, match=message):
        ledger.verify(path)


def test_no_ledger(tmp_path):
    with pytest.raises(EvidenceBroken, match="cannot be read"):
        ledger.verify(tmp_path / "none")
    with pytest.raises(Error, match="cannot be opened"):
        ledger.append(tmp_path / "no folder/ledger", "note", {})


@pytest.mark.parametrize(
    "body", [{"a": math.nan}, {"a": math.inf}, {"a": object()}, {"a": "\ud800"}]
)
def test_what_would_not_read_back_is_refused(tmp_path, body):
    path = tmp_path / "ledger.jsonl"
    written(path, [{}])
    before = path.read_bytes()
    with pytest.raises(AskError):
        ledger.append(path, "note", body)
    assert path.read_bytes() == before


def test_lines_longer_than_a_block(tmp_path):
    path = tmp_path / "ledger.jsonl"
    written(path, [{"x": "y" * n} for n in (200_000, 10, 65_536, 65_300)])
    assert len(ledger.entries(path)) == 4


def test_a_torn_line_is_cut_off_by_the_next_append(tmp_path):
    path = tmp_path / "ledger.jsonl"
    whole = written(path, [{"a": 1}, {"a": 2}])
    path.write_bytes(whole + b'{"at":"2026-')
    with pytest.raises(EvidenceBroken, match="line 3: torn"):
        ledger.verify(path)
    assert ledger.append(path, "note", {}).seq == 2
    assert path.read_bytes().startswith(whole)
    ledger.verify(path)


def test_a_line_that_only_lost_its_newline_is_kept(tmp_path):
    path = tmp_path / "ledger.jsonl"
    whole = written(path, [{"a": 1}])
    path.write_bytes(whole[:-1])
    ledger.append(path, "note", {})
    assert path.read_bytes().startswith(whole)
    assert len(ledger.entries(path)) == 2


def test_nothing_is_added_to_a_broken_end(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"nonsense\n")
    with pytest.raises(EvidenceBroken, match="last line"):
        ledger.append(path, "note", {})


def appending(path, num):
    code = (
        "import sys, pathlib; from neoserve.evidence import ledger\n"
        "for i in range(int(sys.argv[2])): ledger.append(pathlib.Path(sys.argv[1]), 'n', {'i': i})"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(path), str(num)])


def test_threads_and_processes_at_once_keep_the_chain(tmp_path):
    path = tmp_path / "ledger.jsonl"
    others = [appending(path, 20) for _ in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: ledger.append(path, "note", {"i": i}), range(40)))
    assert [other.wait() for other in others] == [0, 0]
    assert [entry.seq for entry in ledger.entries(path)] == list(range(80))


def test_eight_processes_of_which_four_are_killed_keep_the_chain(tmp_path):
    path = tmp_path / "ledger.jsonl"
    killed = [appending(path, 1_000_000) for _ in range(4)]
    kept = [appending(path, 25) for _ in range(4)]
    for i, process in enumerate(killed):
        while not path.exists() or path.read_bytes().count(b"\n") < 20 * (i + 1):
            time.sleep(0.005)
        process.kill()
        process.wait()
    assert [process.wait() for process in kept] == [0] * 4
    ledger.append(path, "note", {})  # recovers what the last kill may have torn
    entries = ledger.entries(path)
    assert [entry.seq for entry in entries] == list(range(len(entries)))
    assert len(entries) > 100


def test_a_full_disk_keeps_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    whole = written(path, [{"a": 1}])
    real_write, written_parts = os.write, []

    def filling(fd, data):
        if written_parts:
            raise OSError(28, "No space left on device")
        written_parts.append(real_write(fd, data[:10]))
        return 10

    monkeypatch.setattr(os, "write", filling)
    with pytest.raises(Error, match=f"No space left on device; the {len(whole)} bytes before"):
        ledger.append(path, "note", {})
    monkeypatch.undo()
    assert path.read_bytes() == whole
    ledger.append(path, "note", {})
    ledger.verify(path)


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:7]))
    path = tmp_path / "ledger.jsonl"
    written(path, [{"a": 1}, {"b": 2}])
    monkeypatch.undo()
    ledger.verify(path)


def test_a_full_file_size_limit_keeps_what_was_there(tmp_path):
    path = tmp_path / "ledger.jsonl"
    code = (
        "import sys, pathlib, resource; from neoserve.evidence import ledger\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "for i in range(100): ledger.append(pathlib.Path(sys.argv[1]), 'n', {'x': 'y' * 100})"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert "File too large; the" in ended.stderr
    entries = ledger.entries(path)
    assert 3000 - 400 < path.stat().st_size <= 3000
    ledger.append(path, "note", {})
    assert len(ledger.entries(path)) == len(entries) + 1


def test_canonical_form_is_that_of_rfc_8785():
    # its sample: 3.2.2 is the input, 3.2.3 the output
    sample = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    assert ledger.canonical(json.loads(sample)).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        + r'"string":"€$\u000f\nA'
        + r"""'B\"\\\\\"/"}"""
    )


def test_keys_are_in_utf_16_order():
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6"]
    ordered = ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    data = ledger.canonical(dict.fromkeys(keys, 0))
    assert list(json.loads(data)) == ordered


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_reads_back(number):
    text = ledger.canonical(number)
    assert float(text) == number
    assert ledger.canonical(float(text)) == text


def test_numbers_without_exponent_are_doubles_too(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.append(path, "note", {"x": 1e17, "y": 1e20, "z": 1e300})
    assert b'{"x":100000000000000000,"y":100000000000000000000,"z":1e+300}' in path.read_bytes()
    assert ledger.entries(path)[0].body == {"x": 1e17, "y": 1e20, "z": 1e300}
    ledger.append(path, "note", {})


def test_a_number_that_no_double_holds_is_not_canonical(tmp_path):
    path = tmp_path / "ledger.jsonl"
    whole = written(path, [{"x": 2**53 - 1}])
    for other in (b"9007199254740993", b"9" * 500, b"1e999", b"9007199254740991.0"):
        path.write_bytes(whole.replace(b"9007199254740991", other))
        with pytest.raises(EvidenceBroken, match="line 1"):
            ledger.verify(path)


def test_integers_beyond_doubles_and_bottomless_data_are_refused(tmp_path):
    with pytest.raises(AskError, match="9007199254740992 exceeds safe integer"):
        ledger.append(tmp_path / "ledger.jsonl", "note", {"x": 2**53})
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(AskError, match="too deeply"):
        ledger.canonical(deep)


def nested(depth):
    data = []
    for _ in range(depth):
        data = [data]
    return data


def can_be_written(depth):
    try:
        ledger.canonical(nested(depth))
    except AskError:
        return False
    return True


def test_the_deepest_data_that_is_written_reads_back(tmp_path):
    path = tmp_path / "ledger.jsonl"
    limit = bisect.bisect_left(range(5000), True, key=lambda depth: not can_be_written(depth))
    refused = set()
    for depth in range(limit - 20, limit + 1):
        try:
            ledger.append(path, "note", {"deep": nested(depth)})
        except AskError as error:
            refused.add(str(error))
    assert refused <= {
        "a 'note' entry does not read back as it was written",
        "data is nested too deeply to be written as JSON",
    }
    assert refused
    ledger.verify(path)


def test_entries_of_another_version_are_refused_by_name(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(written(path, [{}]).replace(b'"v":2', b'"v":1'))
    with pytest.raises(EvidenceBroken, match=r"line 1: an entry of version 1; .* version 2 alone"):
        ledger.verify(path)


def test_the_head_is_the_last_lines_digest_and_costs_one_line(tmp_path):
    path = tmp_path / "ledger.jsonl"
    whole = written(path, [{"a": i} for i in range(3)])
    assert ledger.head(path) == ledger.verify(path) == ledger.digest(whole.splitlines(True)[-1])
    path.write_bytes(b"x" + whole)
    ledger.head(path)
    path.write_bytes(b"")
    with pytest.raises(EvidenceBroken, match="line 1: the ledger holds no entry"):
        ledger.head(path)


def test_repair_cuts_a_torn_line_off_or_completes_it(tmp_path):
    path = tmp_path / "ledger.jsonl"
    whole = written(path, [{"a": 1}, {"b": 2}])
    assert ledger.repair(path) == ""
    path.write_bytes(whole + b'{"at"')
    with pytest.raises(EvidenceBroken, match=r"last line: torn.*--repair"):
        ledger.head(path)
    assert ledger.repair(path) == "5 bytes of a line that a crash tore were cut off"
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-1])
    assert "newline, which was added" in ledger.repair(path)
    assert path.read_bytes() == whole


@SHARED_FOLDER
@given(bodies=BODIES, data=st.data())
def test_a_ledger_cut_anywhere_is_torn_or_misses_its_published_head(tmp_path, bodies, data):
    path = tmp_path / "ledger.jsonl"
    whole = written(path, bodies)
    head = ledger.verify(path)
    at = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:at])
    with pytest.raises(EvidenceBroken, match=r"line \d+: (torn|no line has|the ledger holds no)"):
        ledger.verify(path, head)
    ledger.repair(path)
    assert whole.startswith(path.read_bytes())
