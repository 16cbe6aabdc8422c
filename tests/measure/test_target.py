"""How a server wants its requests, learnt from the server."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError, EngineFailed
from neoserve.measure.engine.running import attach
from neoserve.measure.prompts import WORDS
from neoserve.measure.target import Target, fitted, server_words, user
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Workload

URL = "http://host:8000"


@contextmanager
def server(tokenize=None, models=None):
    """A server that lists these models and counts tokens by this rule."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._reply(models)

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body, self.headers.get("Authorization")))
            self._reply(None if tokenize is None else tokenize(body["content"]))

        def _reply(self, document):
            data = json.dumps(document).encode()
            self.send_response(404 if document is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}", asked
    finally:
        listening.shutdown()
        listening.server_close()


def test_a_chat_and_its_texts_run_together():
    talk = [user("Hello"), {"role": "assistant", "content": " you"}, user(" again")]
    chat = json.loads(Target(URL, "chat", "m").body(talk, 7))
    assert chat["messages"] == talk
    assert (chat["model"], chat["max_tokens"], chat["ignore_eos"]) == ("m", 7, True)
    text = json.loads(Target(URL, "completions", "m", ignore_eos=False).body(talk, 7))
    assert text["prompt"] == "Hello you again"
    assert "messages" not in text
    assert "ignore_eos" not in text
    assert text["stream"]
    assert text["stream_options"] == {"include_usage": True}


def test_requests_go_to_the_route_with_the_key():
    raw = Target(URL + "/v1", "chat", "m", "secret").request([user("Hi")], 1)
    head, body = raw.split(b"\r\n\r\n", 1)
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert Target(URL).path == "/v1/completions"
    assert Target(URL).headers == {}


def probed(count, workload, target=None):
    """Fit to a server whose usage counts so many tokens of so many words."""
    def ask(_, request):
        words = len(json.loads(request.split(b"\r\n\r\n", 1)[1])["prompt"].split())
        return RequestRow(due_s=0.0, prompt_tokens=count(words))

    with server(models={"data": [{"id": "its-model"}]}) as (url, _):
        return fitted(msgspec.structs.replace(target or Target(URL), url=url), workload, "s", ask)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(1, 4), st.integers(60, 3000))
def test_prompts_have_their_length_on_any_straight_line(overhead, per_word, tokens):
    """Rounding to whole words leaves at most half a word."""
    def count(words):
        return overhead + per_word * words

    target, words = probed(count, Workload(prompt_tokens=tokens))
    assert abs(count(target.num_words(tokens)) - tokens) <= per_word / 2
    assert words == WORDS


def test_a_count_that_does_not_grow_with_the_words_is_taken_for_one_each():
    target, _ = probed(lambda _: 40, Workload(prompt_tokens=300))
    assert target.tokens_per_word == 1.0


def test_prompts_of_one_word_show_no_slope():
    target, _ = probed(lambda words: words, Workload(prompt_tokens=1))
    assert (target.tokens_per_word, target.num_words(1)) == (1.0, 1)


def test_a_prompt_within_the_servers_own_tokens_cannot_be_made():
    with pytest.raises(AskError, match=r"adds 30 tokens .*, so one of 30 cannot"):
        probed(lambda words: 30 + words, Workload(prompt_tokens=30))


def test_a_model_that_is_named_is_not_asked_for():
    target, _ = probed(lambda n: n, Workload(prompt_tokens=50), Target(URL, model="mine"))
    assert target.model == "mine"


def test_a_server_that_refuses_for_another_reason_is_said():
    def ask(*_):
        return RequestRow(due_s=0.0, status="http", error="HTTP 401: no key")

    with server() as (url, _), pytest.raises(EngineFailed, match="not serve: HTTP 401: no key"):
        fitted(Target(url, model="m"), Workload(), "s", ask)


def test_ignore_eos_is_dropped_only_where_the_server_complains_of_it():
    def ask(target, _):
        if target.ignore_eos:
            return RequestRow(due_s=0.0, status="http", error="HTTP 400: unknown ignore_eos")
        return RequestRow(due_s=0.0, prompt_tokens=10)

    with server() as (url, _):
        target, _ = fitted(Target(url, model="m"), Workload(), "s", ask)
    assert not target.ignore_eos


@pytest.mark.parametrize("listed", [{"data": []}, {}, [], "x", {"data": [{"name": "x"}]}])
def test_a_server_that_lists_no_model_serves_one(listed):
    with server(models=listed) as (url, _):
        assert attach(url).model == ""


def test_a_server_that_is_not_there_is_said():
    with pytest.raises(EngineFailed, match=r"http://127\.0\.0\.1:9 does not answer"):
        attach("http://127.0.0.1:9")


def tokens_of(text, is_long):
    """One for the start, one for each word, and one more for a long word."""
    return {"tokens": ["<s>", *(part for word in text.split()
                                for part in [word] * (2 if is_long(word) else 1))]}  # fmt: skip


def test_words_of_more_than_one_token_are_left_out():
    with server(lambda text: tokens_of(text, lambda word: len(word) > 5)) as (url, asked):
        found = server_words(Target(url, api_key="k", model="m"))
    assert set(found) == {word for word in WORDS if len(word) <= 5}
    assert {(path, key) for path, _, key in asked} == {("/tokenize", "Bearer k")}
    assert asked[0][1]["add_special_tokens"] is False


@pytest.mark.parametrize(
    "rule",
    [
        lambda text: {"tokens": list(text)},  # one a letter: no word is a single one
        lambda text: {"count": len(text)},
        lambda _: {"tokens": 3},
        lambda _: [1, 2],
        None,
    ],
)
def test_a_tokenizer_that_does_not_help_leaves_the_usual_words(rule):
    with server(rule) as (url, _):
        assert server_words(Target(url)) == WORDS
