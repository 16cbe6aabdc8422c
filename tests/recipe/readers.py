"""Readers of each format by its own rules, written apart from what writes it."""

import re

import yaml


def load_all(text):
    """Every document, by libyaml where it is there: ten times as quick."""
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def load(text):
    """The one document."""
    (document,) = load_all(text)
    return document


def sample_arguments(text):
    """What a stub that prints its words NUL-separated printed."""
    return text.split("\0")[:-1]


def compose_service(text):
    """Compose interpolates $NAME and ${NAME...} with nothing set; $$ is a dollar."""
    document = load(text)
    (service,) = document["services"].values()
    return interpolated(service)


def interpolated(data):
    if isinstance(data, dict):
        return {key: interpolated(value) for key, value in data.items()}
    if isinstance(data, list):
        return [interpolated(value) for value in data]
    if not isinstance(data, str):
        return data
    pattern = r"\$(?:(\$)|\{\w+(?::?-([^}]*))?\}|[A-Za-z_]\w*|(.?))"
    return re.sub(pattern, lambda m: "$" if m[1] else _no_lone_dollar(m), data)


def _no_lone_dollar(match):
    assert match[3] is None, f"compose refuses {match[0]!r}"
    return match[2] or ""


def kubernetes_word(word, env=()):
    """Expand of k8s.io/kubernetes third_party/forked/golang/expansion, in its own order."""
    out, at = "", 0
    while at < len(word):
        if word[at] != "$" or at + 1 == len(word):
            out += word[at]
            at += 1
        elif word[at + 1] == "$":
            out += "$"
            at += 2
        elif word[at + 1] == "(" and ")" in word[at:]:
            end = word.index(")", at)
            name = word[at + 2 : end]
            out += dict(env).get(name, f"$({name})")
            at = end + 1
        else:
            out += word[at : at + 2]
            at += 2
    return out


def systemd_value(text, key):
    """Every value of a key, in order."""
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "s": " "}


def systemd_words(text):
    """systemd.syntax(7): quotes, C escapes, then %% for a percent sign; no other specifier."""
    words, word, quote, at = [], None, "", 0
    while at < len(text):
        c = text[at]
        if c == "\\":
            at += 1
            word = (word or "") + _ESCAPES[text[at]]
        elif quote:
            word, quote = (word, "") if c == quote else (word + c, quote)
        elif c in "\"'":
            word, quote = word or "", c
        elif c in " \t":
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + c
        at += 1
    assert not quote
    if word is not None:
        words.append(word)
    return [_no_specifiers(word) for word in words]


def _no_specifiers(word):
    assert re.fullmatch(r"(?:[^%]|%%)*", word), word
    return word.replace("%%", "%")


def systemd_command(text):
    """ExecStart=: the prefix ``:`` leaves $NAME alone."""
    (value,) = systemd_value(text, "ExecStart")
    first, *rest = systemd_words(value)
    assert first.startswith(":")
    return [first[1:], *rest]


def vllm_words(text):
    """vllm/utils/argparse_utils.py, load_config_file: what becomes of each key."""
    words = []
    for key, value in load(text).items():
        if isinstance(value, bool):
            assert value, "false would become --no-KEY or nothing"
            words.append(f"--{key}")
        elif isinstance(value, list):
            words += [f"--{key}", *map(str, value)]
        else:
            assert isinstance(value, str)
            words += [f"--{key}", value]
    return words
