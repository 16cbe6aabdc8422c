"""Texts to be scored: the one that is shipped, or a user's own."""

from __future__ import annotations

import hashlib
import importlib.resources
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...errors import AskError

LEAST_WORDS = 60  # of a document: paragraphs are merged until they have as many
MOST_WORDS = 200  # longer ones are cut into equal parts
SHIPPED_WORDS = 40  # of each document: 1,450 tokens in all
SHIPPED_NAME = "Moby-Dick, chapters 1 to 3"

_BLANK_LINE = re.compile(r"\n\s*\n")


class Text(NamedTuple):
    """One document."""

    name: str
    text: str

    @property
    def num_words(self) -> int:
        """Split at white space."""
        return len(self.text.split())


class Documents(NamedTuple):
    """What one score is made on."""

    name: str
    texts: tuple[Text, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of all texts in their order."""
        return hashlib.sha256(msgspec.json.encode([text.text for text in self.texts])).hexdigest()

    def cut(self, num_words: int) -> Documents:
        """Each document's first words; white space between them becomes one blank."""
        if num_words < 2:
            raise AskError(f"documents of {num_words} words are too short; expected 2 or more")
        cut = ((name, " ".join(text.split()[:num_words])) for name, text in self.texts)
        return Documents(self.name, tuple(Text(*pair) for pair in cut))


def shipped(words_each: int = SHIPPED_WORDS) -> Documents:
    """28 paragraphs of Moby-Dick (Herman Melville, 1851; in the public domain), cut to size.

    From Project Gutenberg's text as Debian's r-cran-tokenizers 0.3.0 carries it, those of 60 to
    200 words.
    """
    file = importlib.resources.files(__package__).joinpath("data", "moby_dick.txt")
    paragraphs = _BLANK_LINE.split(file.read_text("utf-8"))
    return Documents(SHIPPED_NAME, tuple(_named(map(_joined, paragraphs)))).cut(words_each)


def read_documents(path: Path) -> Documents:
    """A user's text: JSON lines with ``text``, a document each; or paragraphs between blank lines.

    Paragraphs are merged until they have 60 words, and cut where they have more than 200.
    Raises AskError for fewer than two documents, or a line that is not what it should be.
    """
    try:
        content = path.read_text("utf-8-sig")
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise AskError(f"{path} is no UTF-8 text: byte {error.start} is not") from None
    is_lines = path.suffix in (".jsonl", ".ndjson")
    found = _lines(path, content) if is_lines else _merged(_BLANK_LINE.split(content))
    texts = tuple(_named(found))
    if len(texts) < 2:
        raise AskError(
            f"{path} holds {len(texts)} documents to score; expected 2 or more, and 20 to tell "
            "small changes: paragraphs between blank lines, or JSON lines with a text"
        )
    return Documents(path.name, texts)


def _lines(path: Path, content: str) -> Iterator[str]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            text = msgspec.json.decode(line)["text"]
        except (msgspec.DecodeError, KeyError, TypeError):
            text = None
        if not isinstance(text, str) or len(text.split()) < 2:
            raise AskError(f'{path}, line {number}: expected {{"text": TEXT}} with 2 words or more')
        yield text


def _merged(paragraphs: Iterable[str]) -> Iterator[str]:
    words: list[str] = []
    for paragraph in paragraphs:
        words += paragraph.split()
        if len(words) >= LEAST_WORDS:
            yield from _parts(words)
            words = []
    if len(words) >= LEAST_WORDS // 2:
        yield from _parts(words)


def _parts(words: list[str]) -> Iterator[str]:
    num = -(-len(words) // MOST_WORDS)
    for i in range(num):
        yield " ".join(words[len(words) * i // num : len(words) * (i + 1) // num])


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _named(texts: Iterable[str]) -> Iterator[Text]:
    return (Text(f"document {i}", text) for i, text in enumerate(texts, 1))
