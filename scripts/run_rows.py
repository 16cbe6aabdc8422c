"""Loads that a device profile was fitted to, as rows of a fit: measured on our own hosts."""

from __future__ import annotations

from pathlib import Path

from latency_items import Item

from neoserve.catalog.coefficients import device_class, engine_family
from neoserve.faces.latency import Resolved, stored_model
from neoserve.predict.latency_rows import case_of
from neoserve.predict.step import shape_of
from neoserve.schema.profile import DeviceProfile, ProfilePoint
from neoserve.tune.profile import read_profile

_MODEL = "SmolLM2-135M-Instruct"  # of every profile in results/calibration
OWN = "neoserve "  # how the sources of such rows begin


def read_profiles(folders: list[Path]) -> list[Item]:
    """One item a load, of the hardware that its profile describes."""
    found = []
    for folder in folders:
        profile = read_profile(folder / "profile.json")
        found += [_item(profile, point, folder) for point in profile.points]
    return found


def _item(profile: DeviceProfile, point: ProfilePoint, folder: Path) -> Item:
    gguf = profile.engine == "llama.cpp"
    ttft, tpot = (point.figures.get(name) for name in ("ttft_s", "tpot_s"))
    single = point.concurrency == 1
    row = {
        "id": point.trial[:12], "source": f"{OWN}{folder.parent.as_posix()}",
        "engine": profile.engine, "engine_version": profile.version.split()[-1],
        "model": _MODEL, "arch": "dense", "gpu_or_cpu": "local", "load_mode": "closed_loop",
        "isl": str(point.prompt_tokens), "osl": str(point.output_tokens),
        "concurrency": str(point.concurrency), "num_prompts": str(point.num_requests),
        "weight_dtype": point.model.rpartition(".")[2] if gguf else "bf16",
        "ttft_ms": "" if ttft is None else str(1e3 * ttft.measured), "ttft_stat": "median",
        "tpot_ms": "" if tpot is None else str(1e3 * tpot.measured),
        "uses": f"ttft {'single_tpot' if single else 'batched_tpot'}",
    }  # fmt: skip
    case = case_of(row)
    model = stored_model(case.model, case.scheme, case.weight_dtype, case.engine)
    resolved = Resolved(case, model, shape_of(model), profile.hardware)
    family = engine_family(case.engine, case.deployment.engine_version)
    return Item(*resolved, device_class(profile.hardware), family, case.observed, None)
