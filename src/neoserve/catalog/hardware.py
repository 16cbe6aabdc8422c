"""From a HW argument to a Machine: catalog ids, cloud instances, a user's own YAML."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..errors import AskError, CatalogMiss
from ..schema.hardware import HardwareSpec, Instance, Machine, Price
from ..units import GIB
from .files import bundled, key_of, nearest

# A socket without a machine around it: 4 GiB a core, as the m-class of every cloud.
GIB_PER_CORE = 4
STALE_DAYS = 90


def spec_of(entry: Mapping[str, Any]) -> HardwareSpec:
    """One catalog entry as a document. Raises AskError naming the entry and the field."""
    data = {k: v for k, v in entry.items() if k not in ("aliases", "pcie")}
    pcie = entry.get("pcie")
    if pcie:
        data["pcie_bandwidth_bytes_per_s"] = pcie["bandwidth_bytes_per_s"]
    name = str(entry.get("id", "?"))
    data.setdefault("name", name)
    data.setdefault("vendor", "")
    data.setdefault("kind", "cpu" if data.get("cores") else "gpu")
    for field in ("bandwidth_bytes_per_s", "peak_flops_per_s"):
        if not data.get(field):
            raise AskError(
                f"hardware {name!r}: no public {field} is known; give it in a YAML of your own"
            )
    return HardwareSpec.parse(data, f"hardware {name!r}")


@cache
def _hardware_index() -> dict[str, dict[str, Any]]:
    return _index(bundled("hardware")["hardware"])


@cache
def _instance_index() -> dict[str, dict[str, Any]]:
    return _index(bundled("instances")["instances"])


def _index(entries: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    index: dict[str, dict[str, Any]] = {}
    for entry in entries:
        for name in (entry["id"], *entry.get("aliases", ())):
            index.setdefault(key_of(name), entry)
    return index


def all_hardware() -> list[dict[str, Any]]:
    """Every bundled entry."""
    return list(bundled("hardware")["hardware"])


def all_instances(extra: Mapping[str, Any] | None = None) -> list[Instance]:
    """Every instance: the user's own, then the bundled ones that they do not replace."""
    return [_instance(entry) for entry in _instance_entries(extra)]


def _instance_entries(extra: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    own = list((extra or {}).get("instances", ()))
    listed: list[dict[str, Any]] = bundled("instances")["instances"]
    if not own:
        return listed
    replaced = {key_of(entry["id"]) for entry in own}
    return own + [e for e in listed if key_of(e["id"]) not in replaced]


def _instance(entry: Mapping[str, Any]) -> Instance:
    data = {k: v for k, v in entry.items() if k not in ("aliases", "sources")}
    return Instance.parse(data, f"instance {entry.get('id')!r}")


def find_machine(text: str, extra: Mapping[str, Any] | None = None) -> Machine:
    """Resolve an id, an alias, an instance, a short form, ``8xH100-SXM`` or a YAML file.

    Raises CatalogMiss with the nearest names.
    """
    count, name = counted(text)
    if name.endswith((".yaml", ".yml")):
        return _from_yaml(Path(name), count)
    found = _machine(name, count, extra) if extra else _bundled_machine(name, count)
    if found is not None:
        return found
    names = [e["id"] for e in (*_hardware_index().values(), *_instance_index().values())]
    near = nearest(name, sorted(set(names)), n=4, cutoff=0.4)
    raise CatalogMiss(
        "hardware", name, near, "`neoserve catalog hardware` lists all, a YAML file adds your own"
    )


@lru_cache(maxsize=256)
def _bundled_machine(name: str, count: int | None) -> Machine | None:
    return _machine(name, count, None)


def _machine(name: str, count: int | None, extra: Mapping[str, Any] | None) -> Machine | None:
    """A device or an instance by its name, the user's own first. Raises CatalogMiss."""
    key = key_of(name)
    own = _index((extra or {}).get("instances", ()))
    if key in own and key not in _index((extra or {}).get("hardware", ())):
        return _instance_machine(own[key], count, extra)
    entry = _lookup(key, _index((extra or {}).get("hardware", ())), _hardware_index())
    if entry is not None:
        return _device_machine(entry, count, extra)
    entry = _lookup(key, own, _instance_index())
    return None if entry is None else _instance_machine(entry, count, extra)


def counted(text: str) -> tuple[int | None, str]:
    """``8xH100-SXM`` → 8 and the name; None where no number of devices is given."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*[x×]\s*(\S.*?)\s*", text)
    if match and int(match[1]) > 0:
        return int(match[1]), match[2]
    return None, text.strip()


def _lookup(key: str, *indexes: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    """An exact key, else a prefix that only one entry has. Raises CatalogMiss if several do."""
    for index in indexes:
        if key in index:
            return index[key]
    if not key:
        return None
    for index in indexes:
        hits = {e["id"]: e for k, e in index.items() if k.startswith(key)}
        if len(hits) == 1:
            return next(iter(hits.values()))
        if hits and len(hits) <= 12 and not _is_cloud_prefix(key):
            raise CatalogMiss("hardware", key, hits, "the short form fits several: name one")
    return None


def _is_cloud_prefix(key: str) -> bool:
    return key.endswith(".")


def _device_machine(
    entry: Mapping[str, Any], count: int | None, extra: Mapping[str, Any] | None
) -> Machine:
    spec = spec_of(entry)
    notes: tuple[str, ...] = ()
    if not spec.memory_bytes and spec.cores:
        spec = spec.replace(memory_bytes=spec.cores * GIB_PER_CORE * GIB)
        notes = (
            f"{spec.id} is a chip; its machine is taken to have {GIB_PER_CORE} GiB a core "
            f"({spec.memory_bytes // GIB} GiB): name an instance or give --memory",
        )
    # a card on PCIe comes up to eight to a host; what has neither link nor PCIe stands alone
    alone = 8 if spec.pcie_bandwidth_bytes_per_s else 1
    most = count or (spec.link.max_devices if spec.link else alone)
    price, priced = _cheapest(spec.id, extra)
    return Machine(
        id=spec.id, hardware=spec, num_devices=most, price=price, priced_devices=priced, notes=notes
    )


def _cheapest(hardware: str, extra: Mapping[str, Any] | None) -> tuple[Price | None, int]:
    """The lowest on-demand price a device among the listed instances of this hardware."""
    best: tuple[float, Price, int] | None = None
    for entry in _instance_entries(extra):
        if entry["hardware"] != hardware or (entry.get("cores", 0) and _is_slice(entry)):
            continue
        for price in entry.get("prices", ()):
            if price.get("kind", "on-demand") != "on-demand":
                continue
            each = price["usd_per_hour"] / entry["num_devices"]
            if best is None or each < best[0]:
                named = {**price, "region": f"{entry['id']} {price.get('region', '')}".strip()}
                best = each, Price.parse(named, entry["id"]), entry["num_devices"]
    return (best[1], best[2]) if best else (None, 1)


def _is_slice(entry: Mapping[str, Any]) -> bool:
    """Whether a CPU instance rents less than its socket."""
    spec = _hardware_index().get(key_of(entry["hardware"]))
    return bool(spec and spec.get("cores") and entry["cores"] < spec["cores"])


def _instance_machine(
    entry: Mapping[str, Any], count: int | None, extra: Mapping[str, Any] | None
) -> Machine:
    instance = _instance(entry)
    found = _lookup(
        key_of(instance.hardware), _index((extra or {}).get("hardware", ())), _hardware_index()
    )
    if found is None:
        raise CatalogMiss("hardware", instance.hardware, (), f"instance {instance.id} names it")
    spec = spec_of(found)
    notes: tuple[str, ...] = ()
    if spec.kind == "cpu" and instance.cores:
        spec, notes = _slice(spec, instance)
    return Machine(
        id=instance.id,
        hardware=spec,
        num_devices=instance.num_devices * (count or 1),
        price=instance.prices[0] if instance.prices else None,
        priced_devices=instance.num_devices,
        notes=notes,
    )


def _slice(spec: HardwareSpec, instance: Instance) -> tuple[HardwareSpec, tuple[str, ...]]:
    """The share of the sockets that an instance rents: cores, their peak, their bandwidth."""
    share = instance.cores / spec.cores
    sliced = spec.replace(
        cores=instance.cores,
        smt=max(1, instance.vcpus // instance.cores),
        memory_bytes=instance.memory_bytes,
        bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s * share,
        peak_flops_per_s={k: v * share for k, v in spec.peak_flops_per_s.items()},
        numa_nodes_per_socket=max(1, round(spec.numa_nodes_per_socket * share)),
        l3_bytes=int(spec.l3_bytes * share),
    )
    if share == 1:
        return sliced, ()
    return sliced, (
        f"{instance.id} rents {instance.cores} of {spec.cores} cores; memory bandwidth is taken as "
        f"its fair share, {sliced.bandwidth_bytes_per_s / 1e9:.0f} GB/s: more is seen when "
        "neighbours are idle",
    )


def stale_days(date: str, today: datetime.date) -> int:
    """Age in days of a price that is older than STALE_DAYS; 0 while it is fresh or undated."""
    try:
        age = (today - datetime.date.fromisoformat((date + "-01")[:10])).days
    except ValueError:
        return 0
    return age if age > STALE_DAYS else 0


def load_extra(path: Path) -> dict[str, Any]:
    """A user's YAML: ``hardware: [...]`` and ``instances: [...]``, or one hardware entry."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AskError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise AskError(f"{path} is not readable YAML: {first}") from None
    if not isinstance(data, dict):
        raise AskError(f"{path}: expected a mapping with hardware: or instances:")
    if "hardware" not in data and "instances" not in data:
        data = {"hardware": [data]}
    for kind in ("hardware", "instances"):
        entries = data.get(kind, [])
        if not isinstance(entries, list) or not all(
            isinstance(e, dict) and isinstance(e.get("id"), str) and key_of(e["id"])
            for e in entries
        ):
            raise AskError(f"{path}: {kind} must be a list of entries with an id, a name")
    _defaults(data)
    for entry in data.get("hardware", []):
        _check_hardware(entry, path)
    for entry in data.get("instances", []):
        _check_instance(entry, path)
    return data


def _check_hardware(entry: dict[str, Any], path: Path) -> None:
    """Raises AskError for what no data sheet says."""
    what = f"{path}: hardware {entry['id']!r}"
    aliases = entry.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise AskError(f"{what}: aliases are {aliases!r}; expected a list of names")
    pcie = entry.get("pcie")
    if pcie and (not isinstance(pcie, dict) or "bandwidth_bytes_per_s" not in pcie):
        raise AskError(f"{what}: pcie is {pcie!r}; expected a mapping with bandwidth_bytes_per_s")
    spec = spec_of(entry)
    entry["kind"] = spec.kind
    figures = {"bandwidth_bytes_per_s": spec.bandwidth_bytes_per_s}
    figures |= {f"peak_flops_per_s of {k}": v for k, v in spec.peak_flops_per_s.items()}
    if spec.link is not None:
        figures["bandwidth_bytes_per_s of its link"] = spec.link.bandwidth_bytes_per_s
    for name, value in figures.items():
        if not 0 < value < 1e21:
            raise AskError(f"{what}: {name} is {value:g}; expected a number above 0")
    if spec.memory_bytes < 0 or spec.reported_memory_bytes < 0 or spec.cores < 0 or spec.smt < 1:
        raise AskError(f"{what}: memory_bytes, cores or smt is negative; expected what is there")
    if not spec.memory_bytes and not spec.cores:
        raise AskError(f"{what}: memory_bytes is missing; give it, for example 24GiB")


def _check_instance(entry: dict[str, Any], path: Path) -> None:
    """Raises AskError for what nobody rents."""
    what = f"{path}: instance {entry['id']!r}"
    try:
        instance = _instance(entry)
    except AskError as error:
        raise AskError(f"{path}: {error}") from None
    if instance.num_devices < 1 or instance.cores < 0 or instance.memory_bytes < 0:
        raise AskError(f"{what}: num_devices, cores or memory_bytes is below what a machine has")
    for price in instance.prices:
        if not 0 <= price.usd_per_hour < 1e9:
            raise AskError(
                f"{what}: usd_per_hour is {price.usd_per_hour:g}; expected dollars from 0"
            )


def _defaults(data: dict[str, Any]) -> None:
    """A user's instance may leave out what a price list would say; sizes may have units."""
    from ..units import parse_bytes

    for entry in data.get("instances", []):
        entry.setdefault("cloud", "own")
        entry.setdefault("num_devices", 1)
        entry.setdefault("prices", [])
        for price in entry["prices"] if isinstance(entry["prices"], list) else ():
            if isinstance(price, dict) and "date" in price:
                price["date"] = str(price["date"])  # YAML makes a date of it
    for entry in (*data.get("hardware", []), *data.get("instances", [])):
        for key, value in entry.items():
            if key in ("memory_bytes", "reported_memory_bytes") and isinstance(value, str):
                entry[key] = parse_bytes(value)
            elif key == "compute_capability":
                entry[key] = str(value)  # YAML makes a number of 9.0
            elif key.endswith("_per_s"):
                entry[key] = _exponents(value)


def _exponents(value: Any) -> Any:
    """YAML 1.1 reads 1.0e12 as text (it wants e+12); people mean the number."""
    if isinstance(value, dict):
        return {k: _exponents(v) for k, v in value.items()}
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _from_yaml(path: Path, count: int | None) -> Machine:
    extra = load_extra(path)
    if extra.get("instances"):
        return _instance_machine(extra["instances"][0], count, extra)
    if extra.get("hardware"):
        return _device_machine(extra["hardware"][0], count, extra)
    raise AskError(f"{path} holds no hardware and no instance; expected an entry of either")
