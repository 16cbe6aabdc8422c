"""`neoserve accuracy`: public measurements read from files, compared, counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..catalog.architectures import read_config
from ..catalog.engines import find_profile
from ..catalog.hardware import find_machine
from ..catalog.models import find_model, read_json
from ..errors import AskError, CatalogMiss
from ..predict.kv_truth import CHOSEN, Case, by_family, log_case, oracle_case
from ..schema.engine import EngineProfile
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from ..stats import quantile

ORACLE_DEVICE = "H100-SXM-80GB"  # what the oracle emulated (its documentation)

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def read_rows(truth: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON-lines truth file. Raises AskError naming the line."""
    try:
        with truth.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _row(line, truth, number)
    except (OSError, UnicodeDecodeError) as error:
        raise AskError(f"{truth}: {getattr(error, 'strerror', None) or error}") from None


def _row(line: str, truth: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise AskError(f"{truth} line {number} is not JSON: {error}") from None
    if not isinstance(row, dict) or "id" not in row:
        raise AskError(f"{truth} line {number}: expected an object with an id")
    return row


class Configs:
    """The models that truth rows name, read once each."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._read: dict[str, ModelSpec | AskError] = {}

    def of(self, row: dict[str, Any]) -> ModelSpec:
        """The row's model. Raises AskError."""
        key = str(row.get("config_file") or row.get("model") or "")
        if key not in self._read:
            try:
                self._read[key] = self._load(row)
            except AskError as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, AskError):
            raise found
        return found

    def _load(self, row: dict[str, Any]) -> ModelSpec:
        name = str(row.get("config_file") or "")
        for folder in self._folders if name else ():
            for path in (folder / name, folder / Path(name).name):
                if path.is_file():
                    return read_config(read_json(path), str(row.get("model") or path.stem))
        return find_model(str(row.get("model")), online=False)


def oracle(truth: Path, folders: Sequence[Path], version: str = "") -> dict[str, Any]:
    """Compare with what vLLM's own allocator computed."""
    configs = Configs([truth.parent, *folders])
    hardware = find_machine(ORACLE_DEVICE).hardware
    cases = []
    for row in read_rows(truth):
        stated = str(row.get("engine", "")).removeprefix("vLLM ").split(" ")[0]
        try:
            profile = find_profile("vllm", version or stated)
            cases.append(oracle_case(row, configs.of(row), profile, hardware))
        except AskError as error:
            cases.append(_unanswered(row, str(error)))
        except _MALFORMED as error:
            cases.append(_unanswered(row, _malformed(error)))
    return report("oracle", truth, cases)


def logs(truth: Path, folders: Sequence[Path]) -> dict[str, Any]:
    """Compare with what engines printed at start-up."""
    configs = Configs([truth.parent, *folders])
    default = find_machine(ORACLE_DEVICE).hardware
    cases = []
    for row in read_rows(truth):
        try:
            model = configs.of(row)
            cases.append(log_case(row, model, _profiles(row), _device(row), default))
        except AskError as error:
            cases.append(_unanswered(row, str(error)))
        except _MALFORMED as error:
            cases.append(_unanswered(row, _malformed(error)))
    return report("kv", truth, cases)


def _profiles(row: dict[str, Any]) -> list[EngineProfile]:
    """What a printed version may mean; only a release's says which rules it has."""
    engine = str(row.get("engine") or "vllm")
    version = str(row.get("engine_version") or "")
    newest = find_profile(engine)
    if engine.lower() != "vllm":
        return [newest]
    if not version or not version[0].isdigit():
        return [newest, find_profile(engine, "0.20.1"), find_profile(engine, "0.18")]
    if version.startswith("0.1.dev"):  # a source build without tags
        return [find_profile(engine, "0.20.1"), newest, find_profile(engine, "0.20.0")]
    stated = find_profile(engine, version)
    if "dev" in version or "rc" in version:
        return [stated, find_profile(engine, "0.20.1"), newest]
    return [stated]


def _device(row: dict[str, Any]) -> HardwareSpec | None:
    name = str(row.get("gpu") or "").split("(")[0]
    name = name.replace("GeForce ", "").rsplit(" x", 1)[0].removesuffix(" 96GB").strip()
    if not name:
        return None
    try:
        return find_machine({"H100": "H100-SXM-80GB", "NVIDIA H100": "H100-SXM-80GB"}.get(
            name, name)).hardware  # fmt: skip
    except CatalogMiss:
        return None


def _unanswered(row: dict[str, Any], note: str) -> Case:
    return Case(
        id=str(row["id"]), family=str(row.get("family")), observed={}, predicted={}, exact=None,
        basis="unanswered", note=note,
    )  # fmt: skip


def _malformed(error: Exception) -> str:
    kind = "lacks" if isinstance(error, KeyError) else "holds a value of the wrong kind:"
    return f"the row {kind} {error}"


def report(kind: str, truth: Path, cases: Sequence[Case]) -> dict[str, Any]:
    """The document of `accuracy kv|oracle`."""
    answered = [c for c in cases if c.exact is not None or c.basis == "end-to-end"]
    stated = [c for c in cases if c.basis == "stated" and c.exact is not None]
    errors = sorted(abs(c.memory_error_share) for c in cases if c.memory_error_share is not None)
    return {
        "schema": "neoserve/accuracy/1",
        "kind": kind,
        "truth": truth.name,
        "cases": len(cases),
        "answered": len(answered),
        "exact": sum(bool(c.exact) for c in cases),
        "decided": len(stated),
        "decided_exact": sum(bool(c.exact) for c in stated),
        "chosen_afterwards": sum(c.basis == CHOSEN for c in cases),
        "memory_error": {
            "n": len(errors),
            "median": quantile(errors, 0.5) if errors else None,
            "within_5_percent": sum(e <= 0.05 for e in errors),
        },
        "by_family": by_family(cases),
        "rows": [c.to_data() for c in cases],
    }


def run(what: str, truth: Path, folders: Sequence[Path]) -> dict[str, Any]:
    """`neoserve accuracy WHAT`. Raises AskError."""
    if what == "oracle":
        return oracle(truth, folders)
    if what == "kv":
        return logs(truth, folders)
    from .latency import latency

    return latency(truth)


def show(document: dict[str, Any]) -> str:
    """The table of an accuracy document."""
    from .tables import table

    if document["kind"] == "latency":
        from .latency import show_latency

        return show_latency(document)
    rows = [
        [family, str(c["cases"]), str(c["answered"]), str(c["exact"])]
        for family, c in sorted(document["by_family"].items())
    ]
    text = table(["family", "cases", "answered", "exact"], rows, [False, True, True, True])
    text += (
        f"\n\n{document['exact']} of {document['cases']} cases exact; of the {document['decided']} "
        f"that state the bytes to fill, {document['decided_exact']}."
    )
    if document["chosen_afterwards"]:
        text += (
            f"\n{document['chosen_afterwards']} more are exact only under an engine version that "
            "was chosen afterwards."
        )
    memory = document["memory_error"]
    if memory["n"]:
        text += (
            f"\nAvailable KV memory from device and settings alone: median error "
            f"{memory['median']:.1%}, within 5 % in {memory['within_5_percent']} of {memory['n']}."
        )
    return text
