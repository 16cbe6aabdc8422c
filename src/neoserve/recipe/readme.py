"""README.md of a recipe: what was measured, what each file is, how to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..schema.campaign import Recommendation
from .claims import claims, one_line, price_date
from .served import Served
from .vllm_config import vllm_config


def readme(
    r: Recommendation, served: Served, head: str, files: Sequence[str], left_out: Mapping[str, str]
) -> str:
    """`files` are those beside it, `left_out` those that could not be made, with the reason."""
    lines = [
        f"# Serving {served.model}",
        "",
        f"{r.config.version or r.config.engine}, {r.pick.candidate.show()}.",
        "",
        "## What was measured",
        "",
        *(f"- {sentence}" for sentence in claims(r)),
        *([f"- The price is of {price_date(r.price_source)}."]
          if price_date(r.price_source) else []),
        *([f"- Noise floor: between visits two configurations compare differently by "
           f"{r.noise_share:.1%}."]
          if r.noise_share is not None else []),
        f"- {r.num_jobs} loads and quality checks were run; the search ended by: {r.ended_by}.",
        *(f"- {one_line(note)}" for note in r.notes),
        *(["", "## Why it is faster" if r.gain.is_proven else "## What was counted", ""]
          if r.explained else []),
        *(f"- {one_line(sentence)}" for sentence in r.explained),
        "",
        "## Limits",
        "",
        *(f"- {limit}" for limit in _limits(r, served)),
        "",
        "## Files",
        "",
        "| file | run it |",
        "|---|---|",
        *(f"| `{name}` | {_how(name, served)} |" for name in files),
        *([] if not left_out else ["", "Not written:", ""]),
        *(f"- `{name}`: {reason}" for name, reason in left_out.items()),
        "",
        "## Check it",
        "",
        "The measured command, word for word, is in `run.sh`; every other file runs the same "
        "arguments and environment, and says in its first lines where it cannot.",
        "",
        "```",
        f"neoserve verify RUN --head {head}",
        "```",
        "",
        f"Ledger head `{head}`.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _limits(r: Recommendation, served: Served) -> list[str]:
    host = r.trial.host if r.trial else None
    on = (
        f"{host.cpu_model or 'an unnamed CPU'}, {host.logical_cpus} CPUs, kernel {host.kernel}"
        if host
        else "a host that no trial describes"
    )
    limits = [
        f"It was measured on {on}; on another machine it is another measurement.",
        "What was measured holds for this load; other lengths or arrivals were not tried.",
        "The client ran on the same host, where the settings leave cores free on those.",
        "No file asks clients for a password: they listen on this host alone, or inside a cluster.",
    ]
    if served.compiles:
        limits.append("The first start compiles the model, which takes minutes.")
    return limits


def _how(name: str, served: Served) -> str:
    unit = f"{served.name}.service"
    commands = {
        "run.sh": "`./run.sh`, on a host like the measured one",
        "config.yml": _config(served),
        "env.sh": "sourced before `vllm serve`",
        "compose.yaml": "`docker compose up -d`",
        "Dockerfile": f"`docker build -t {served.name}:local .`",
        "kubernetes.yaml": "`kubectl apply -f kubernetes.yaml`",
        "kserve.yaml": "`kubectl apply -f kserve.yaml`, KServe 0.18 or newer",
        unit: f"copy to `/etc/systemd/system/`, `systemctl enable --now {unit}`",
        "quantize.py": "`python quantize.py [MODEL [TARGET]]`, makes the checkpoint",
        "MODEL_CARD.md": "README.md of the checkpoint, where it is published",
        "cost.json": "what tokens cost, for programs",
        "cost.md": "the same, for people",
    }
    return commands[name]


def _config(served: Served) -> str:
    if served.config.engine != "vllm":
        return ""
    return f"`. ./env.sh && {vllm_config(served).command}`".replace("|", "\\|")
