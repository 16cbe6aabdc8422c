"""A user's space file: TOML that narrows, widens or pins; or a list of points in vLLM's own JSON.

The JSON is that of ``vllm bench sweep serve --serve-params`` (vLLM's param_sweep.py): a list of
objects, or an object of named ones, whose keys are flags with ``_`` or ``-``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..catalog.files import nearest
from ..errors import AskError
from ..schema.base import Document
from ..schema.space import WEIGHTS, Candidate, Knob, Space

_KEYS = ("knobs", "drop", "pins", "checkpoints", "candidates")
_KNOB_KEYS = ("values", "default", "flag", "off_flag", "env", "restart", "changes_output",
              "meaning")  # fmt: skip
_NAME_KEY = "_benchmark_name"  # of a sweep's point: for people


class SpaceFile(Document, frozen=True):
    """What a file says, not yet held against a space."""

    name: str = ""  # of the file, for complaints
    knobs: dict[str, dict[str, Any]] = {}
    drop: tuple[str, ...] = ()
    pins: dict[str, str] = {}
    checkpoints: dict[str, str] = {}  # name -> path: for `space_for`
    candidates: tuple[dict[str, str], ...] = ()
    may_widen: bool = False  # points may have flags that are no knobs yet


def read_space_file(path: Path) -> SpaceFile:
    """By its ending: ``.toml``, or ``.json`` for vLLM's sweep. Raises AskError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AskError(f"space file {path}: {reason}") from None
    if path.suffix == ".json":
        return parse_sweep(text, path.name)
    if path.suffix != ".toml":
        raise AskError(f"space file {path}: expected a name that ends in .toml, or .json for "
                       "vLLM's sweep parameters")  # fmt: skip
    return parse_toml(text, path.name)


def parse_toml(text: str, name: str = "space file") -> SpaceFile:
    """Raises AskError with the place, and what was probably meant."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AskError(f"{name} is not valid TOML: {error}") from None
    for key in data:
        _known(key, _KEYS, f"{name}: key")
    knobs = {k: _table(v, f"{name}: knobs.{k}") for k, v in _table_of(data, "knobs", name).items()}
    for knob, table in knobs.items():
        for key in table:
            _known(key, _KNOB_KEYS, f"{name}: knobs.{knob} has the key")
    points = data.get("candidates", [])
    if not isinstance(points, list):
        raise AskError(f"{name}: candidates is no list; write each point under [[candidates]]")
    return SpaceFile(
        name=name,
        knobs=knobs,
        drop=tuple(_list(data.get("drop", []), f"{name}: drop")),
        pins={_pinned(k, name): _pin(v, f"{name}: pins.{k}")
              for k, v in _table_of(data, "pins", name).items()},
        checkpoints={k: str(v) for k, v in _table_of(data, "checkpoints", name).items()},
        candidates=tuple(_point(p, f"{name}: candidates") for p in points),
    )


def parse_sweep(text: str, name: str = "sweep") -> SpaceFile:
    """vLLM's serve parameters as points; flags that no knob has become knobs. Raises AskError."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise AskError(f"{name} is not valid JSON: {error}") from None
    points = list(data.values()) if isinstance(data, dict) else data
    if not isinstance(points, list) or not all(isinstance(p, dict) for p in points):
        raise AskError(
            f"{name}: expected a list of objects with serve arguments, or an object of named ones, "
            "as vllm bench sweep serve --serve-params takes"
        )
    plain = [{k: v for k, v in point.items() if k != _NAME_KEY} for point in points]
    return SpaceFile(
        name=name, candidates=tuple(_point(p, name) for p in plain), may_widen=True
    )  # fmt: skip


def applied(space: Space, file: SpaceFile) -> Space:
    """The space as the file wants it. Raises AskError for names that the space does not have."""
    for name in file.drop:
        _known(name, _names(space.knobs), f"{file.name}: drop has the knob")
    knobs = {k.name: k for k in space.knobs if k.name not in file.drop}
    for name, table in file.knobs.items():
        knobs[name] = _changed(knobs.get(name), name, table, space, file)
    if file.may_widen:
        knobs |= _new_flags(knobs.values(), file)
    pinned = [k for k in knobs.values() if not {k.flag.split(" ")[0], k.off_flag, k.env}
              .isdisjoint(set(file.pins) - {""})]  # fmt: skip
    for knob in pinned:
        del knobs[knob.name]
    given = tuple(_given(p, tuple(knobs.values()), file.name) for p in file.candidates)
    notes = [f"{name}: dropped by {file.name}" for name in file.drop]
    notes += [f"{knob.name}: pinned by {file.name}" for knob in pinned]
    return space.replace(
        knobs=tuple(knobs.values()), pins=space.pins | file.pins, given=space.given + given,
        notes=(*space.notes, *notes),
    )  # fmt: skip


def space_toml(space: Space) -> str:
    """The space as a file to start from: every knob with its values."""
    lines = [f"# {space.engine} on this host. Leave out what should stay as it is."]
    for knob in space.knobs:
        values = ", ".join(json.dumps(value) for value in knob.values)
        lines += ["", f"# {knob.meaning}", f"# by itself: {knob.default}", f"[knobs.{knob.name}]",
                  f"values = [{values}]"]  # fmt: skip
    pins = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in space.pins.items()]
    return "\n".join([*lines, "", "[pins]", *pins]) + "\n"


def _changed(
    known: Knob | None, name: str, table: Mapping[str, Any], space: Space, file: SpaceFile
) -> Knob:
    """A knob with the file's fields; one that is not known has to say what it sets."""
    where = f"{file.name}: knobs.{name}"
    fields: dict[str, Any] = dict(table)
    if "values" in fields:
        fields["values"] = tuple(_list(fields["values"], f"{where}.values"))
        if not fields["values"]:
            raise AskError(f"{where}.values is empty; drop the knob instead: drop = [{name!r}]")
    if "default" in fields:
        fields["default"] = _word(fields["default"], f"{where}.default")
    if known is None:
        if not (fields.get("flag") or fields.get("env")) or "values" not in fields:
            raise AskError(
                f"{where} is no knob of {space.engine}{_hint(name, _names(space.knobs))}; a new "
                'one needs flag = "--…" or env = "…", and values'
            )
        fields = {"default": "the engine's own", "source": file.name, "off_flag": ""} | fields
        fields["name"] = name
        if set(fields["values"]) <= {"on", "off"} and fields.get("flag") and not fields["off_flag"]:
            fields["off_flag"] = f"--no-{fields['flag'].lstrip('-')}"
        return Knob.parse(fields, where)
    if name == WEIGHTS and "values" in fields:
        for value in fields["values"]:
            _known(value, known.values, f"{where} has the checkpoint")
    return Knob.parse(known.to_data() | fields, where)


def _new_flags(knobs: Iterable[Knob], file: SpaceFile) -> dict[str, Knob]:
    """A knob for each flag of the points that none has yet."""
    found: dict[str, list[str]] = {}
    for point in file.candidates:
        for key, value in point.items():
            if _find(key, knobs) is None:
                found.setdefault(_flat(key), []).append(value)
    made = {}
    for name, values in found.items():
        is_switch = set(values) <= {"on", "off"} and "." not in name
        words = {"on": "true", "off": "false"} if "." in name else {}
        values = [words.get(value, value) for value in values]
        made[name] = Knob(
            name, tuple(dict.fromkeys(values)), "the engine's own", flag=f"--{name}",
            off_flag=f"--no-{name}" if is_switch else "",
            meaning="As the sweep sets it; it may change what is answered.",
            changes_output=True, source=file.name,
        )  # fmt: skip
    return made


def _given(point: Mapping[str, str], knobs: tuple[Knob, ...], name: str) -> Candidate:
    chosen = {}
    for key, value in point.items():
        knob = _find(key, knobs)
        if knob is None:
            raise AskError(
                f"{name}: candidates has the knob {key!r}, which the space does not have"
                f"{_hint(_flat(key), _names(knobs))}"
            )
        if "." in knob.name:
            value = {"on": "true", "off": "false"}.get(value, value)
        chosen[knob.name] = value
    return Candidate(chosen, "given")


def _find(key: str, knobs: Iterable[Knob]) -> Knob | None:
    """By name, flag or variable, with ``_`` or ``-``."""
    flat = _flat(key)
    for knob in knobs:
        names = (knob.name, knob.flag.split(" ")[0].lstrip("-"), knob.env)
        if key in names or flat in names:
            return knob
    return None


def _flat(key: str) -> str:
    """``max_num_seqs`` → ``max-num-seqs``; what follows a dot is vLLM's own and stays."""
    head, dot, rest = key.lstrip("-").partition(".")
    return head.replace("_", "-") + dot + rest


def _point(value: Any, where: str) -> dict[str, str]:
    return {key: _word(v, f"{where}: {key}") for key, v in _table(value, where).items()}


def _word(value: Any, where: str) -> str:
    """A scalar as a knob holds it; an object as the JSON that a flag takes."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, dict):
        return json.dumps(value)
    raise AskError(f"{where} is {value!r}; expected a word, a number, true or false")


def _pinned(key: str, name: str) -> str:
    if key.startswith("-") or (key.isupper() and key.replace("_", "").isalnum()):
        return key
    raise AskError(
        f'{name}: pins has {key!r}; expected a flag such as "--{_flat(key)}" or a variable such as '
        "VLLM_CPU_KVCACHE_SPACE"
    )


def _pin(value: Any, where: str) -> str:
    """A flag's or variable's value; true: the flag stands alone."""
    if value is True:
        return ""
    if value is False:
        raise AskError(f"{where} is false; pin the flag that turns it off, as in \"--no-x\" = true")
    return _word(value, where)


def _list(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise AskError(f"{where} is {value!r}; expected a list, such as [1, 2]")
    return [_word(item, where) for item in value]


def _table_of(data: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    return _table(data.get(key, {}), f"{name}: {key}")


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise AskError(f"{where} is {value!r}; expected a table of names and values")
    return value


def _names(knobs: Iterable[Knob]) -> list[str]:
    return [knob.name for knob in knobs]


def _known(name: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    if name not in names:
        raise AskError(
            f"{what} {name!r}, which is not known{_hint(name, names)}; known: {', '.join(names)}"
        )


def _hint(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
