"""Blocks of docs/graviton.md: the published table beside what is predicted, and what measuring it
would take; and the quantizing scripts of examples/graviton, as `neoserve recipe` writes them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from neoserve.catalog.coefficients import coefficients_for
from neoserve.catalog.hardware import all_instances, find_machine
from neoserve.catalog.intervals import spread_for
from neoserve.evidence.claims import read_claims
from neoserve.faces.beside_tables import HEADER, apart_lines, side_rows
from neoserve.faces.claims import verify_claims
from neoserve.faces.cli import COMMANDS, parser_of
from neoserve.faces.compare import CompareAsk, compare_sides
from neoserve.faces.requests import beside_asks
from neoserve.faces.tune import Prepared, context_tokens, planned
from neoserve.faces.tune_ask import tune_ask
from neoserve.measure.host import Gpu
from neoserve.predict.cost import hourly_usd, price_basis
from neoserve.recipe.compress import scheme_of, script
from neoserve.schema.comparison import ComparedSide, Comparison
from neoserve.schema.trial import HostPrint
from neoserve.tune.forecast import forecast
from neoserve.tune.host import HostFacts
from neoserve.tune.space import space_for
from neoserve.tune.space_file import applied, read_space_file
from neoserve.units import show_duration, show_usd, significant

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "graviton"
CLAIMS = ROOT / "tests" / "data" / "claims" / "graviton4.toml"
MACHINES = ("c8g.4xlarge", "c7g.4xlarge", "c6i.4xlarge", "g5.2xlarge")
MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
SLO = "ttft:p95<3s; tpot:p95<200ms"
CPU_SCHEMES, GPU_SCHEMES = "none,w8a8,w4a8", "none,w8a8"  # vLLM's kernels for W4A8 are of CPUs
VLLM = "vllm 0.32.0"
_NAMES = {"none": "BF16", "w8a8": "W8A8", "w4a8": "W4A8"}
_SAME = {"c8g W4A8": "c8g.4xlarge W4A8", "c8g BF16": "c8g.4xlarge BF16"}  # row -> prediction
_QUANTIZED = {"w8a8": "w8a8", "w4a8": "w4a8-channel"}


def asked() -> Comparison:
    """Each machine in each precision, beside the table."""
    asks = {}
    for on, schemes in ((",".join(MACHINES[:3]), CPU_SCHEMES), (MACHINES[3], GPU_SCHEMES)):
        words = [MODEL, "--on", on, "-q", schemes, "--slo", SLO, "--offline"]
        asks |= beside_asks(_parser("compare").parse_args(words))
    asks = {" ".join((name.split()[0], _NAMES[name.split()[1]])): ask for name, ask in asks.items()}
    return compare_sides(CompareAsk(predictions=asks, beside=(str(CLAIMS),), online=False))


def _parser(name: str):
    return parser_of(next(command for command in COMMANDS if command.name == name))


def side_table(found: Comparison) -> str:
    """Rows of the terms, then what is apart, then how intervals were got."""
    lines = _rows(list(HEADER), side_rows(found), num_words=2)
    reasons = [f"- {line}\n" for line in apart_lines(found)]
    notes = [f"- {note}.\n" for note in found.notes]
    return (
        f"{lines}\nUnlike, and so apart:\n\n{''.join(reasons)}\nNotes:\n\n{''.join(notes)}\n"
        f"{found.summary}\n\n{''.join(map(_held, _pairs(found)))}\n{_benches()}\n"
    )


def _benches() -> str:
    """How many public benches measured this engine on each class of device."""
    spreads = [spread_for(coefficients_for(find_machine(name).hardware, "vllm"))
               for name in MACHINES]  # fmt: skip
    counts = {spread.device_class: spread.num_sources for spread in spreads}
    told = ", ".join(f"{num or 'none'} on {name}" for name, num in counts.items())
    return f"Public benches of vLLM that the intervals rest on: {told}."


def _pairs(found: Comparison) -> list[tuple[ComparedSide, ComparedSide]]:
    sides = {side.name: side for side in found.sides}
    return [(sides[row], sides[name]) for row, name in _SAME.items() if row in sides]


def _held(pair: tuple[ComparedSide, ComparedSide]) -> str:
    """Whether a published rate, which the server could at least do, lies within the prediction."""
    row, said = (side.rate_rps for side in pair)
    assert row is not None
    where = "no rate was predicted"
    if said is not None and said.high is not None:
        inside = row.value <= said.high
        where = (
            f"{'within' if inside else '**above**'} the interval of {pair[1].name}, which ends at "
            f"{significant(said.high)}" + ("" if inside else ": one of the two is wrong")
        )
    rate = significant(row.value)
    return f"- {pair[0].name}, at least {rate} requests/s as published: {where}.\n"


def claim_table() -> str:
    """What the claim check says of each figure of the table."""
    source = read_claims(CLAIMS)[0].source
    report = verify_claims(CLAIMS, online=False)
    rows = [[v.subject, v.claimed, v.verdict, v.reason] for v in report.verdicts]
    return (
        f"{_rows(['row', 'figure', 'verdict', 'why'], rows, num_words=4)}\n"
        f"{report.num_holds} hold, {report.num_wrong} are wrong, {report.num_unproven} are "
        f"unproven. Source: {source}.\n"
    )


def _rows(header: list[str], rows: list[list[str]], num_words: int) -> str:
    marks = ["---"] * num_words + ["---:"] * (len(header) - num_words)
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, marks, *rows))


def cost_table() -> str:
    """What each campaign takes, if the predictions are right, at list price."""
    rows = []
    for name in MACHINES:
        plan, machine = campaign(name).plan, find_machine(name)
        expected = forecast(plan)
        assert machine.price is not None
        usd = hourly_usd(machine.price, 1, machine.priced_devices)
        most = max(plan.budget_s or 0.0, expected.spent_s)
        rows.append([
            name, str(len(plan.candidates)), str(expected.num_jobs),
            show_duration(expected.spent_s), show_usd(usd * expected.spent_s / 3600),
            show_usd(usd * most / 3600), f"${usd:g}",
        ])  # fmt: skip
    header = ["instance", "candidates", "jobs", "engine time", "costs", "within the budget", "$/h"]
    assert machine.price is not None
    return _rows(header, rows, num_words=1) + f"\nPrices: {price_basis(machine.price)}.\n"


def campaign(name: str) -> Prepared:
    """What `measure.sh` asks on an instance, planned for that instance as it is described."""
    args = _parser("tune").parse_args(words_of(name))
    args.engine_args = ()  # none follow --
    ask = tune_ask(args)
    file, facts = read_space_file(Path(ask.space_file)), host_of(name)
    space = space_for(
        "vllm", ask.model, facts, device=ask.device, version=VLLM,
        checkpoints=file.checkpoints | ask.checkpoints, context_tokens=context_tokens(ask.workload),
        client_workers=ask.workers,
    )  # fmt: skip
    return planned(ask, applied(space, file), facts)


def words_of(name: str) -> list[str]:
    """The words of `neoserve tune` in measure.sh, its variables filled in."""
    text = (EXAMPLE / "measure.sh").read_text()
    command = re.search(r"neoserve tune (\"\$MODEL\".*?)\nfi", text, re.DOTALL)
    assert command is not None
    is_gpu, is_arm = name.startswith("g"), name.startswith(("c7g", "c8g"))
    checkpoints = "--checkpoint w8a8=qwen-w8a8" + is_arm * " --checkpoint w4a8-channel=qwen-w4a8"
    values = {
        "MODEL": MODEL, "DEVICE": "gpu" if is_gpu else "cpu", "CHECKPOINTS": checkpoints,
        "SPACE": str(EXAMPLE / ("space-gpu.toml" if is_gpu else "space.toml")), "TYPE": name,
        "BUDGET": re.search(r"\$\{BUDGET:-(\w+)\}", text)[1],
    }  # fmt: skip
    line = command[1].replace("\\\n", " ")
    return shlex.split(re.sub(r"\$(\w+)", lambda match: values[match[1]], line))


def host_of(name: str) -> HostFacts:
    """An instance as the catalog describes it."""
    machine = find_machine(name)
    instance = next(i for i in all_instances() if i.id == name)
    threads = instance.vcpus // instance.cores
    host = HostPrint(
        cpu_model=machine.hardware.id, isa=machine.hardware.isa, physical_cores=instance.cores,
        logical_cpus=instance.vcpus, cpuset=f"0-{instance.vcpus - 1}", quota_cores=None,
        memory_bytes=instance.memory_bytes, numa_nodes=1, kernel="", governor="",
        smt="on" if threads > 1 else "notsupported", thp="madvise", load_average_1min=0.0,
        clock_hz=0.0, versions={},
    )  # fmt: skip
    cores = tuple(
        tuple(core + instance.cores * t for t in range(threads)) for core in range(instance.cores)
    )
    gpus = (Gpu(machine.hardware.id, machine.hardware.memory_bytes),)
    return HostFacts(
        host, cores, instance.cores, {"tcmalloc": "libtcmalloc_minimal.so.4"},
        gpus=gpus if machine.hardware.kind == "gpu" else (), machine=machine,
    )  # fmt: skip


def quantizers() -> dict[str, str]:
    """File below the project -> text: what makes each checkpoint of the campaign."""
    found = {}
    for name, word in _QUANTIZED.items():
        scheme = scheme_of(word)
        assert scheme is not None
        top = (
            f'"""Makes {scheme.title}: pip install \'llmcompressor==0.14.*\', then\n'
            f'python quantize_{name}.py. It needs no calibration data. Written by make docs."""\n'
        )
        found[f"examples/graviton/quantize_{name}.py"] = top + script(scheme, MODEL, f"qwen-{name}")
    return found
