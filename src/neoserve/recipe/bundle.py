"""Every file of a recipe, or some of them, from a recommendation alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from ..errors import AskError
from ..schema.campaign import Recommendation
from .compose import compose
from .compress import compress_script, model_card, scheme
from .cost import cost_card, cost_page
from .dockerfile import dockerfile
from .images import container
from .kserve import kserve
from .kubernetes import kubernetes
from .readme import readme
from .served import Served, served_by
from .shell import env_script, run_script
from .systemd import systemd
from .vllm_config import vllm_config

KINDS = ("run", "compose", "systemd", "k8s", "kserve", "vllm", "dockerfile", "cost", "checkpoint")


class Bundle(NamedTuple):
    """Files by name, and why others are missing."""

    files: dict[str, str]
    left_out: dict[str, str]


_Make = Callable[[], str]


def bundle(
    recommendation: Recommendation,
    head: str,
    *,
    to: Collection[str] | None = None,
    output_tokens_per_month: float | None = None,
) -> Bundle:
    """All files that apply, or those of the kinds in `to`.

    Of all, one that cannot be made is left out with its reason; one that was asked for raises
    AskError. A README comes with all alone.
    """
    unknown = set(to or ()) - set(KINDS)
    if unknown:
        raise AskError(f"no recipe {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}, all")
    served = served_by(recommendation, head)
    volume = output_tokens_per_month
    if to is not None:
        makers = _makers(recommendation, served, head, volume)
        return Bundle({n: make() for kind in KINDS if kind in to
                       for n, make in makers[kind].items()}, {})  # fmt: skip
    files, left_out = {}, {}
    for kind, makers_of_kind in _makers(recommendation, served, head, volume).items():
        if not _applies(kind, recommendation, served):
            continue
        for name, make in makers_of_kind.items():
            try:
                files[name] = make()
            except AskError as error:
                left_out[name] = str(error)
    page = readme(recommendation, served, head, tuple(files), left_out)
    return Bundle({"README.md": page, **files}, left_out)


def _makers(
    r: Recommendation, served: Served, head: str, volume: float | None
) -> dict[str, dict[str, _Make]]:
    """By kind, in the order of KINDS."""
    card = cost_card(r, head, output_tokens_per_month=volume)
    card_json = card.to_pretty_json() + "\n"
    return {
        "run": {"run.sh": lambda: run_script(served)},
        "compose": {"compose.yaml": lambda: compose(served)},
        "systemd": {f"{served.name}.service": lambda: systemd(served)},
        "k8s": {"kubernetes.yaml": lambda: kubernetes(served)},
        "kserve": {"kserve.yaml": lambda: kserve(served)},
        "vllm": {
            "config.yml": lambda: vllm_config(served).text,
            "env.sh": lambda: env_script(served),
        },
        "dockerfile": {"Dockerfile": lambda: dockerfile(served)},
        "cost": {"cost.json": lambda: card_json, "cost.md": lambda: cost_page(card, r)},
        "checkpoint": {
            "quantize.py": lambda: compress_script(r, head),
            "MODEL_CARD.md": lambda: model_card(r, head),
        },
    }


def _applies(kind: str, r: Recommendation, served: Served) -> bool:
    if kind in ("kserve", "vllm"):
        return served.config.engine == "vllm"
    if kind == "checkpoint":
        return scheme(r) is not None
    return kind != "dockerfile" or _needs_building(served)


def _needs_building(served: Served) -> bool:
    """No official image fits as it is."""
    try:
        return bool(container(served).packages)
    except AskError:
        return False
