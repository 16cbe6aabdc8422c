"""The server as requests see it: its route, how it names its model, how it counts tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ..errors import AskError, EngineFailed
from ..schema.trial import RequestRow
from ..schema.workload import Workload
from .engine.api import Api
from .prompts import WORDS, Prompts, single_token_words
from .wire import Origin

Route = Literal["completions", "chat"]
Message = dict[str, str]

_PROBE_LENGTHS = (1, 3)  # probes at the asked length and at a third of it


class Target(msgspec.Struct, frozen=True):
    """Where requests go and how this server wants them."""

    url: str  # without /v1
    route: Route = "completions"
    model: str = ""
    api_key: str = ""
    timeout_s: float = 600.0
    ignore_eos: bool = True
    overhead_tokens: float = 0.0  # of chat templates and start tokens, by usage
    tokens_per_word: float = 1.0

    @property
    def path(self) -> str:
        """The route that requests are posted to."""
        return "/v1/chat/completions" if self.route == "chat" else "/v1/completions"

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def num_words(self, prompt_tokens: int) -> int:
        """How many words make a prompt that this server counts as so many tokens."""
        return max(1, round((prompt_tokens - self.overhead_tokens) / self.tokens_per_word))

    def body(self, messages: list[Message], output_tokens: int) -> bytes:
        """One request: a chat, or its texts run together."""
        asked: dict[str, Any] = (
            {"messages": messages}
            if self.route == "chat"
            else {"prompt": "".join(message["content"] for message in messages)}
        )
        asked |= {
            "model": self.model,
            "max_tokens": output_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return msgspec.json.encode(asked | ({"ignore_eos": True} if self.ignore_eos else {}))

    def request(self, messages: list[Message], output_tokens: int) -> bytes:
        """The same, as HTTP."""
        return Origin.of(self.url).request(
            "POST", self.path, self.body(messages, output_tokens), self.headers
        )


def user(text: str) -> Message:
    """One turn of the user."""
    return {"role": "user", "content": text}


Ask = Callable[[Target, bytes], RequestRow]  # sends one request and reads its answer


def fitted(
    target: Target, workload: Workload, salt: str, ask: Ask
) -> tuple[Target, tuple[str, ...]]:
    """Learn whether the server knows ignore_eos, and how it counts.

    Returns the target and the words that prompts are made of. Raises EngineFailed when the
    server does not answer, AskError when prompts of the asked length cannot be made.
    """
    words = server_words(target)
    prompts = Prompts(workload, f"{salt} probe", words)
    found = []
    for index, divisor in enumerate(_PROBE_LENGTHS):
        num_words = max(1, workload.prompt_tokens // divisor)
        target, row = _probe(target, prompts.text(index, num_words), ask)
        found.append((num_words, row.prompt_tokens))
    return _with_counts(target, workload, found), words


def _probe(target: Target, text: str, ask: Ask) -> tuple[Target, RequestRow]:
    row = ask(target, target.request([user(text)], 2))
    if row.status == "http" and "ignore_eos" in row.error and target.ignore_eos:
        target = msgspec.structs.replace(target, ignore_eos=False)
        row = ask(target, target.request([user(text)], 2))
    if row.status != "ok":
        raise EngineFailed(f"{target.url}{target.path} does not serve: {row.error}")
    return target, row


def _with_counts(target: Target, workload: Workload, found: list[tuple[int, int]]) -> Target:
    """A straight line through two probes: tokens = overhead + words x tokens per word."""
    (words_a, tokens_a), (words_b, tokens_b) = found
    per_word = (tokens_a - tokens_b) / (words_a - words_b) if words_a != words_b else 1.0
    if per_word <= 0:
        per_word = 1.0
    overhead = tokens_a - per_word * words_a
    if overhead >= workload.prompt_tokens:
        raise AskError(
            f"the server adds {overhead:.0f} tokens to each prompt (chat template, start tokens), "
            f"so one of {workload.prompt_tokens} cannot be made; ask for more, or for completions"
        )
    return msgspec.structs.replace(target, overhead_tokens=overhead, tokens_per_word=per_word)


def server_words(target: Target) -> tuple[str, ...]:
    """Words that are one token each for this server's tokenizer, as far as it tells.

    Where it has too few of them, prompts are as long as usage, asked twice, lets them be made.
    """
    count = _token_counter(target)
    try:
        return WORDS if count is None else single_token_words(count, WORDS)
    except AskError:
        return WORDS


def _token_counter(target: Target) -> Callable[[str], int] | None:
    """What /tokenize of llama.cpp, vLLM or SGLang counts; null where there is none."""
    api = Api(target.url, target.api_key)

    def count(text: str) -> int:
        asked = {"content": text, "prompt": text, "model": target.model,
                 "add_special_tokens": False}  # fmt: skip
        return len(api.post("/tokenize", asked)["tokens"])

    try:
        count(" a")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return count
