import pytest

from neoserve.errors import AskError
from neoserve.measure.quality import Question, read_questions


@pytest.mark.parametrize(
    ("answer", "text", "is_right"),
    [
        ("Paris", " The capital is Paris.\nNext", True),
        ("paris", "PARIS", True),
        ("Paris", "Parisian", False),
        ("4", "It is 14.", False),
        ("4", "It is 4.", True),
        ("-4", "It is 4.", False),
        ("-4", "x = -4.", True),
        ("3.5", "about 3.5%", False),
        ("New York", "in New\n York, of course", True),
        ("x", "", False),
    ],
)
def test_an_answer_stands_in_the_text(answer, text, is_right):
    assert Question("?", answer).is_right(text) == is_right


@pytest.mark.parametrize(
    ("text", "is_right"), [(" B.\nbecause", True), ("B or C", False), ("\nb", True), ("", False)]
)
def test_an_exact_answer_is_the_first_line(text, is_right):
    assert Question("?", "B", is_exact=True).is_right(text) == is_right


def test_lines_of_a_task(tmp_path):
    path = tmp_path / "task.jsonl"
    second = '{"prompt": "B?", "answer": "B", "rule": "exact", "max_tokens": 3}'
    path.write_text(f'{{"question": "2+2=", "answer": 4}}\n{second}\n')
    first, second = read_questions(path)
    assert first == Question("2+2=", "4")
    assert second == Question("B?", "B", True, 3)
    assert len({first.name, second.name, Question("2+2=", "5").name}) == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "holds no questions"),
        ("{", "line 1: is no JSON object"),
        ('{"question": "a"}', "line 1: expected"),
        ('{"question": "a", "answer": "b", "rule": "maybe"}', "line 1: expected"),
        ('{"question": "a", "answer": "--"}', "line 1: expected"),
        ('{"question": "a", "answer": "b", "max_tokens": true}', "max_tokens above 0"),
        ('{"question": "a", "answer": "b"}\n' * 2, "asks a question twice"),
    ],
)
def test_what_is_no_task_is_refused(tmp_path, content, sentence):
    path = tmp_path / "task.jsonl"
    path.write_text(content)
    with pytest.raises(AskError, match=sentence):
        read_questions(path)
