import pytest

from neoserve.errors import AskError
from neoserve.measure.quality import read_documents, shipped


def test_the_shipped_text_is_enough_for_a_bootstrap():
    whole, cut = shipped(10_000), shipped()
    assert len(cut.texts) == len(whole.texts) >= 24
    assert all(60 <= text.num_words <= 200 for text in whole.texts)
    assert {text.num_words for text in cut.texts} == {40}
    assert whole.texts[0].text.startswith("Call me Ishmael. Some years ago")
    assert len({text.text for text in whole.texts}) == len(whole.texts)
    assert whole.digest != cut.digest == shipped().digest


def test_paragraphs_are_merged_and_cut(tmp_path):
    path = tmp_path / "mine.txt"
    words = [str(i) for i in range(70 + 30 + 40 + 450 + 31)]
    ends = (70, 100, 140, 590, 621)
    starts = (0, *ends[:-1])
    path.write_text("\n \n".join(" ".join(words[a:b]) for a, b in zip(starts, ends, strict=True)))
    found = read_documents(path)
    assert [text.num_words for text in found.texts] == [70, 70, 150, 150, 150, 31]
    assert " ".join(text.text for text in found.texts).split() == words


def test_lines_are_documents_as_they_are(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"text": "a  b\\nc", "id": 1}\n\n{"text": "d e"}\n')
    assert [text.text for text in read_documents(path).texts] == ["a  b\nc", "d e"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b"few words", "holds 0 documents"),
        ("a.txt", b"word " * 80, "holds 1 documents"),
        ("a.txt", b"caf\xe9 " * 80, "no UTF-8 text: byte 3"),
        ("a.jsonl", b'{"text": "a b"}\n{"txt": "c d"}', "line 2: expected"),
        ("a.jsonl", b'{"text": "one"}', "line 1: expected"),
        ("a.jsonl", b"[1]", "line 1: expected"),
        ("a.jsonl", b"{", "line 1: expected"),
    ],
)
def test_what_cannot_be_scored_is_refused(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AskError, match=sentence):
        read_documents(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(AskError, match="cannot be read: No such file"):
        read_documents(tmp_path / "none.txt")


def test_a_cut_to_nothing():
    with pytest.raises(AskError, match="1 words are too short"):
        shipped(1)
