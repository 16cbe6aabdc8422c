"""`neoserve catalog`: facts with their source and date."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec

from ..catalog import hardware as hw
from ..catalog.engines import profiles
from ..catalog.families import FAMILIES
from ..catalog.files import bundled, key_of
from ..catalog.models import bundled_names, bundled_note, find_model
from ..catalog.quantization import WEIGHT_SCHEMES
from ..errors import CatalogMiss
from ..schema.hardware import Instance
from ..units import show_bytes, show_count, show_usd, significant
from .tables import pairs, table


def show_catalog(what: str, name: str, extra_file: str = "") -> tuple[Any, str]:
    """(document, text) of a list, or of one entry."""
    if what == "hardware":
        return _hardware(name, extra_file)
    if what == "instances":
        return _instances(name, extra_file)
    if what == "models":
        return _models(name)
    if what == "architectures":
        found = [a for a in sorted(FAMILIES) if name.lower() in a.lower()]
        return found, "\n".join(found)
    if what == "engines":
        documents = [p.to_data() for p in profiles() if name.lower() in p.engine]
        rows = [[p["engine"], p["device"], p["versions"], f"{p['default_utilization']:.2f}",
                 p["log_definition"]] for p in documents]  # fmt: skip
        header = ["engine", "device", "versions", "utilization", "KV size is logged as"]
        return documents, table(header, rows, [False] * 5)
    schemes = [s for s in WEIGHT_SCHEMES if name.lower() in s.name]
    rows = [[s.name, f"{s.bits:.4g}", s.compute, s.note] for s in schemes]
    header = ["scheme", "bits/weight", "multiplies", "note"]
    return [s.to_data() for s in schemes], table(header, rows, [False, True, False, False])


def _hardware(name: str, extra_file: str) -> tuple[Any, str]:
    extra = hw.load_extra(Path(extra_file)) if extra_file else {}
    entries = [*extra.get("hardware", []), *hw.all_hardware()]
    if name:
        exact = [e for e in entries if key_of(e["id"]) == key_of(name)
                 or key_of(name) in map(key_of, e.get("aliases", ()))]  # fmt: skip
        if exact:
            return _hardware_entry(exact[0], extra)
        entries = [e for e in entries if key_of(name) in key_of(e["id"])]
        if not entries:
            hw.find_machine(name, extra)  # raises with the nearest names
    rows = [
        [e["id"], e["kind"], show_bytes(e["memory_bytes"]) if e.get("memory_bytes") else "-",
         f"{e['bandwidth_bytes_per_s'] / 1e9:,.0f}" if e.get("bandwidth_bytes_per_s") else "-",
         _tera(e, "bf16") or _tera(e, "fp16") or _tera(e, "fp32") or "-",
         _tera(e, "fp8") or _tera(e, "int8") or "-"]
        for e in entries
    ]  # fmt: skip
    header = ["id", "kind", "memory", "GB/s", "16-bit TFLOP/s", "8-bit TOP/s"]
    return entries, table(header, rows, [False, False, True, True, True, True])


def _tera(entry: dict[str, Any], dtype: str) -> str:
    value = (entry.get("peak_flops_per_s") or {}).get(dtype)
    return significant(value / 1e12) if value else ""


def _hardware_entry(entry: dict[str, Any], extra: dict[str, Any]) -> tuple[Any, str]:
    sources = bundled("hardware")["sources"]
    named = entry.get("sources", {})
    used = {fact: sources.get(key, {"title": key}) for fact, key in named.items()}
    prices = [i for i in hw.all_instances(extra) if i.hardware == entry["id"] and i.prices]
    document = {**entry, "sources": used, "instances": [msgspec.to_builtins(i) for i in prices]}
    rows = [(k, _fact(k, v)) for k, v in entry.items() if k not in ("sources", "aliases", "id")]
    text = pairs(entry["id"], rows) + "\n\n" + pairs("Sources", _source_rows(used))
    if prices:
        text += "\n\n" + _price_table(prices)
    return document, text


def _fact(name: str, value: Any) -> str:
    if name.endswith("_bytes") or name == "memory_bytes":
        return show_bytes(value)
    if name.endswith("_bytes_per_s"):
        return f"{value / 1e9:,.0f} GB/s"
    if name == "peak_flops_per_s":
        return ", ".join(f"{k} {significant(v / 1e12)} T" for k, v in value.items())
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _source_rows(used: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fact, f"{s.get('title', '')} {s.get('date', '')}".strip()) for fact, s in used.items()]


def _instances(name: str, extra_file: str) -> tuple[Any, str]:
    extra = hw.load_extra(Path(extra_file)) if extra_file else {}
    found = [i for i in hw.all_instances(extra)
             if name.lower() in i.id.lower() or key_of(name) == key_of(i.hardware)]  # fmt: skip
    if not found:
        hw.find_machine(name, extra)
        raise CatalogMiss("instance", name, (), "`neoserve catalog instances` lists all")
    return [i.to_data() for i in found], _price_table(found)


def _price_table(instances: list[Instance]) -> str:
    today = datetime.date.today()
    rows = []
    for i in instances:
        for price in i.prices or (None,):
            usd = f"{show_usd(price.usd_per_hour)}/h" if price else "-"
            region = price.region if price else ""
            date = price.date + _stale(price.date, today) if price else "no public price"
            memory = show_bytes(i.memory_bytes) if i.memory_bytes else "-"
            devices = f"{i.num_devices} x {i.hardware}"
            rows.append([i.id, devices, str(i.vcpus or "-"), memory, usd, region, date])
    header = ["instance", "devices", "vCPU", "memory", "price", "where", "as of"]
    return table(header, rows, [False, False, True, True, True, False, False])


def _stale(date: str, today: datetime.date) -> str:
    age = hw.stale_days(date, today)
    return f" (stale: {age} days)" if age else ""


def _models(name: str) -> tuple[Any, str]:
    names = [n for n in bundled_names() if name.lower() in n.lower()]
    exact = [n for n in names if key_of(n) == key_of(name)]
    if exact or (name and not names) or len(names) == 1:
        return _model(names[0] if len(names) == 1 else exact[0] if exact else name)
    rows = []
    for n in names:
        try:
            spec = find_model(n, online=False)
        except CatalogMiss:
            continue  # bundled facts of an architecture that NeoServe cannot compute
        rows.append([n, spec.family, show_count(spec.total_params / 1e9) + " B",
                     f"{spec.max_position_tokens:,}"])  # fmt: skip
    header = ["model", "family", "parameters", "context"]
    return [row[0] for row in rows], table(header, rows, [False, False, True, True])


def _model(name: str) -> tuple[Any, str]:
    spec = find_model(name, online=False)
    document = {**spec.to_data(), "total_params": spec.total_params,
                "active_params": spec.active_params}  # fmt: skip
    kinds: dict[str, int] = {}
    for layer in spec.layers:
        for mixer in layer.mixers:
            kinds[mixer.kind] = kinds.get(mixer.kind, 0) + 1
    rows = [
        ("architecture", spec.architecture),
        ("family", spec.family),
        ("parameters", f"{spec.total_params:,} ({spec.active_params:,} read for a token)"),
        ("layers", f"{len(spec.layers)}: " + ", ".join(f"{n} {k}" for k, n in kinds.items())),
        ("context", f"{spec.max_position_tokens:,} tokens"),
        ("dtype", spec.dtype + (f", weights {spec.quantization.scheme}"
                                if spec.quantization.method else "")),
        ("KV cache", spec.kv_cache_dtype),
    ]  # fmt: skip
    note = bundled_note(spec.id) if spec.id in bundled_names() else ""
    if note:
        rows.append(("note", note))
    return document, pairs(spec.id, rows)
