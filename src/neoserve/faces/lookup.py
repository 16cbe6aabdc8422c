"""What the catalog knows, as documents that pages and agents can filter."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..catalog import hardware as hw
from ..catalog.files import bundled, key_of
from ..catalog.models import bundled_names, find_model
from ..errors import AskError
from ..predict.cost import price_basis
from ..schema.answers import HardwareFacts, HardwareList, ModelFacts, ModelList


def list_hardware(name: str = "", kind: str = "", limit: int | None = None) -> HardwareList:
    """Devices whose id, name, alias or instance holds `name`. Raises AskError."""
    found = [
        facts
        for facts, words in _devices()
        if (not kind or facts.kind == kind) and _holds(words, name)
    ]
    if name and not found:
        hw.find_machine(name)  # raises with the nearest names, or it is of another kind
        raise AskError(f"{name} is no {kind}; leave `kind` out")
    found.sort(key=lambda facts: key_of(facts.id) != key_of(name))  # the one that is named first
    return HardwareList(
        hardware=tuple(found[: _count(limit)]),
        num_matching=len(found),
        ids=tuple(facts.id for facts in found),
    )


def list_models(name: str = "", limit: int | None = None) -> ModelList:
    """Bundled models whose id holds `name`. Raises CatalogMiss."""
    names = [n for n in bundled_names() if name.lower() in n.lower()]
    if not names:
        names = [find_model(name, online=False).id]  # an alias; or it raises with nearest names
    return ModelList(models=tuple(map(_model, names[: _count(limit)])), num_matching=len(names))


def _count(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise AskError(f"limit is {limit}; expected at least 1")
    return limit


def _holds(words: tuple[str, ...], name: str) -> bool:
    key = key_of(name)
    return not key or any(key in word for word in words)


@cache
def _devices() -> tuple[tuple[HardwareFacts, tuple[str, ...]], ...]:
    """Each with the words that it is found by."""
    by_device: dict[str, list[str]] = {}
    for instance in hw.all_instances():
        by_device.setdefault(instance.hardware, []).append(instance.id)
    found = []
    for entry in hw.all_hardware():
        instances = tuple(by_device.get(entry["id"], ()))
        words = (entry["id"], str(entry.get("name", "")), *entry.get("aliases", ()), *instances)
        found.append((_facts(entry, instances), tuple(map(key_of, words))))
    return tuple(found)


def _facts(entry: dict[str, Any], instances: tuple[str, ...]) -> HardwareFacts:
    price, devices = _price(entry["id"])
    return HardwareFacts(
        id=entry["id"],
        name=str(entry.get("name", entry["id"])),
        vendor=str(entry.get("vendor", "")),
        kind=str(entry.get("kind", "cpu" if entry.get("cores") else "gpu")),
        memory_bytes=entry.get("memory_bytes") or 0,
        bandwidth_bytes_per_s=entry.get("bandwidth_bytes_per_s") or 0.0,
        peak_flops_per_s=entry.get("peak_flops_per_s") or {},
        cores=entry.get("cores") or 0,
        year=entry.get("year") or 0,
        isa=tuple(entry.get("isa", ())),
        usd_per_hour=price.usd_per_hour if price else None,
        price_basis=price_basis(price) if price else "",
        priced_devices=devices,
        instances=instances,
        sources=_sources(entry),
    )


def _price(name: str) -> tuple[Any, int]:
    try:
        machine = hw.find_machine(name)
    except AskError:  # no public bandwidth or peak: it cannot be computed with
        return None, 1
    return machine.price, machine.priced_devices


def _sources(entry: dict[str, Any]) -> dict[str, str]:
    known = bundled("hardware")["sources"]
    said = {fact: known.get(key, {"title": key}) for fact, key in entry.get("sources", {}).items()}
    return {
        fact: ", ".join(filter(None, (source.get("title", ""), source.get("date", ""))))
        for fact, source in said.items()
    }


@cache
def _model(name: str) -> ModelFacts:
    spec = find_model(name, online=False)
    has_state = any(m.state for layer in spec.layers for m in layer.mixers)
    has_experts = any(layer.ffn.num_experts for layer in spec.layers)
    return ModelFacts(
        id=spec.id,
        family=spec.family,
        kind="hybrid" if has_state else "moe" if has_experts else "dense",
        num_params=spec.total_params,
        num_active_params=spec.active_params,
        max_position_tokens=spec.max_position_tokens,
        weights=spec.quantization.scheme if spec.quantization.method else spec.dtype,
    )
