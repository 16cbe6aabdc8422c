import json

import pytest

from neoserve.errors import AskError
from neoserve.measure.dataset import Message, UserPrompt, read_dataset


def written(tmp_path, *lines):
    path = tmp_path / "prompts.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts))
    return path


def test_lines_of_prompts_and_messages(tmp_path):
    path = written(
        tmp_path,
        {"prompt": "Tell me\na joke"},
        {"prompt": "Again", "output_tokens": 9, "category": "fun"},
        "",
        {"max_tokens": 7, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": [{"type": "text", "text": "Who are you?"}]},
        ]},
    )  # fmt: skip
    assert read_dataset(path) == (
        UserPrompt("Tell me\na joke", ("Tell me\na joke",)),
        UserPrompt("Again", ("Again",), 9),
        UserPrompt("Be brief.\n\nHello\n\nHi\n\nWho are you?", ("Hello", "Who are you?"), 7),
    )


@pytest.mark.parametrize("indent", [None, 2])
def test_sharegpt(tmp_path, indent):
    talk = [
        {"from": "human", "value": "One"},
        {"from": "gpt", "value": "Uno"},
        {"from": "human", "value": "Two"},
    ]
    data = [
        {"id": "a", "conversations": talk},
        {"id": "b", "conversations": []},
        {"id": "c", "conversations": talk[1:2]},
    ]
    path = written(tmp_path, json.dumps(data, indent=indent))
    assert read_dataset(path) == (UserPrompt("One", ("One", "Two")),)
    as_lines = written(tmp_path, *data)
    assert read_dataset(as_lines) == (UserPrompt("One", ("One", "Two")),)


def test_turns_are_the_users_messages():
    prompt = UserPrompt("One\n\nUno\n\nTwo", ("One", "Two"), 5)
    assert prompt.messages(1) == (Message("One\n\nUno\n\nTwo", 5),)
    assert prompt.messages(2) == prompt.messages(9) == (Message("One", 5), Message("Two", 5))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "holds no prompts"),
        ([{"prompt": "a"}, '{"prompt"'], r"line 2: not JSON"),
        ([{"prompt": "a"}, "", {"text": "b"}], "line 3: no prompt is found; write"),
        ([{"prompt": ""}], "line 1: no prompt"),
        ([{"prompt": 5}], "line 1: no prompt"),
        (["7"], "line 1: no prompt"),
        ([{"prompt": "a", "output_tokens": "many"}], "line 1: no prompt"),
        ([{"messages": [{"role": "assistant", "content": "b"}]}], "line 1: no prompt"),
        ([{"messages": [{"role": "user", "content": [{"image_url": "x"}]}]}], "line 1: no prompt"),
        (['[{"conversations": 5}]'], "entry 1: no prompt"),
        (['[{"conversations": []}]'], "holds no prompts"),
    ],
)
def test_bad_lines_are_named(tmp_path, lines, message):
    with pytest.raises(AskError, match=message):
        read_dataset(written(tmp_path, *lines))


def test_no_file(tmp_path):
    with pytest.raises(AskError, match="cannot be read"):
        read_dataset(tmp_path / "nowhere")
