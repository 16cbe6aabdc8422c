"""The command line: reads options, calls one function, prints its document or a table of it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from .. import __version__
from ..errors import EXIT_MET, EXIT_NOT_MET, AskError, Error
from .options import (
    BENCH,
    BESIDE,
    CALIBRATE,
    CATALOG,
    COMPARE,
    COST,
    DISPATCH,
    ENGINE,
    FLEET,
    GATE,
    ISA,
    JSON,
    LISTEN,
    MANY,
    MCP,
    MODEL_HELP,
    MONEY,
    OFFLINE,
    ONE,
    PMU,
    QUALITY,
    SELFTEST,
    TUNE,
    WATCH,
    WORKLOAD,
    Option,
    add_options,
    real,
)

HARDWARE_HELP = (
    "catalog id, cloud instance, local or a YAML file, e.g. H100-SXM, c8g.4xlarge, 8xL40S"
)
MAX_SENTENCE = 800  # characters; a longer one quotes absurd input

D = TypeVar("D")


class Command(msgspec.Struct, frozen=True):
    """One command: its words, its options, what runs it."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    options: tuple[Option, ...] = ()
    arguments: tuple[tuple[str, dict[str, Any]], ...] = ()
    example: str = ""
    rest: str = ""  # attribute that takes the words after ``--``


class Parser(argparse.ArgumentParser):
    """argparse that reports a bad ask as everything else does: one sentence, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise AskError(f"{message}; `{self.prog} --help` shows what it takes")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except AskError as error:
            flag = "/".join(action.option_strings) or action.dest
            raise AskError(f"{flag}: {error}") from None


def _predict(args: argparse.Namespace) -> int:
    from .ask import answer_predict
    from .requests import predict_ask

    answer = answer_predict(predict_ask(args))
    impossible = answer.memory is None  # refused before any memory was counted
    if args.json:
        show_json(answer.to_json())
    elif not impossible:
        from .tables import show_prediction

        say(show_prediction(answer))
    if impossible:
        raise AskError(f"{answer.model} cannot run on {args.on} like this: {answer.refusal}")
    return EXIT_NOT_MET if not answer.starts or answer.meets_slo is False else EXIT_MET


def _plan(args: argparse.Namespace) -> int:
    from .ask import answer_plan
    from .requests import plan_ask

    result = answer_plan(plan_ask(args))
    if args.plot:
        from pathlib import Path

        from .plot import write

        write(result, Path(args.plot))
        note(f"wrote {args.plot}")
    if args.json:
        show_json(result.to_json())
    else:
        from .tables import show_plan

        say(show_plan(result))
    return EXIT_MET if result.best is not None else EXIT_NOT_MET


def _cost(args: argparse.Namespace) -> int:
    from .cost_command import cost
    from .money import show_cost

    found = cost(args)
    tell(args, found, show_cost)
    return EXIT_MET if found.best is not None else EXIT_NOT_MET


def _fleet(args: argparse.Namespace) -> int:
    from .fleet_command import fleet, show_fleet

    found = fleet(args, note)
    tell(args, found, show_fleet)
    return EXIT_MET if found.usd_per_month is not None else EXIT_NOT_MET


def _compare(args: argparse.Namespace) -> int:
    if args.beside or args.baseline or args.plot:
        return _compare_sides(args)
    from .compare import compare_hardware, show_comparison
    from .requests import compare_ask

    found = compare_hardware(compare_ask(args))
    tell(args, found, show_comparison)
    return EXIT_MET if found.best is not None else EXIT_NOT_MET


def _compare_sides(args: argparse.Namespace) -> int:
    from pathlib import Path

    from .beside_tables import show_sides, write
    from .compare import CompareAsk, compare_sides
    from .requests import beside_asks

    found = compare_sides(CompareAsk(
        predictions=beside_asks(args), beside=tuple(args.beside or ()), baseline=args.baseline,
        catalog=args.catalog, online=not args.offline,
    ))  # fmt: skip
    if args.plot:
        write(found, Path(args.plot))
        note(f"wrote {args.plot}")
    tell(args, found, show_sides)
    return EXIT_MET


def _ui(args: argparse.Namespace) -> int:
    from .ui import run_ui

    return run_ui(args, note)


def _mcp(args: argparse.Namespace) -> int:
    from .ui import run_mcp

    return run_mcp(args, note)


def _catalog(args: argparse.Namespace) -> int:
    from .catalog import show_catalog

    document, text = show_catalog(args.what, args.name, args.catalog)
    tell(args, document, lambda _: text)
    return EXIT_MET


def _accuracy(args: argparse.Namespace) -> int:
    from pathlib import Path

    from .accuracy import run, show

    document = run(args.what, Path(args.truth), [Path(c) for c in args.configs or ()])
    tell(args, document, show)
    return EXIT_MET


def _bench(args: argparse.Namespace) -> int:
    from .bench import bench, exit_code
    from .bench_ask import bench_ask
    from .bench_tables import show_bench

    found = bench(bench_ask(args), note)
    tell(args, found, show_bench)
    return exit_code(found)


def _tune(args: argparse.Namespace) -> int:
    from .tune_ask import run

    return run(args, note)


def _calibrate(args: argparse.Namespace) -> int:
    from .bench_ask import environment
    from .calibrate import CalibrateAsk, run
    from .calibrate_tables import show_calibrated

    found = run(
        CalibrateAsk(
            models=tuple(args.model) or (("",) if args.engine.startswith("llama") else ()),
            engine=args.engine, engine_args=args.engine_args,
            engine_env=environment(args.env or []), device=args.device, python=args.python,
            threads=args.threads, context_tokens=args.context, budget_s=args.budget, out=args.out,
            ready_timeout_s=args.ready_timeout, timeout_s=args.timeout,
        ),
        note,
    )  # fmt: skip
    tell(args, found.profile, lambda got: show_calibrated(got, str(found.folder), found.head))
    return EXIT_MET


def _selftest(args: argparse.Namespace) -> int:
    import tempfile
    from pathlib import Path

    from ..measure.selftest import Truth, selftest
    from .bench_tables import show_selftest

    truth = Truth(args.streams, args.ttft, args.itl, args.osl)
    note(f"loading a server of known latencies with {args.streams} streams ...")
    with tempfile.TemporaryDirectory(prefix="neoserve-") as folder:
        found = selftest(Path(folder) / "truth.log", truth, duration_s=args.duration,
                         workers=args.workers, limit_s=args.limit)  # fmt: skip
    tell(args, found, show_selftest)
    return EXIT_MET if found.is_trusted else EXIT_NOT_MET


def _quality(args: argparse.Namespace) -> int:
    from .quality import exit_code, quality, quality_ask, show_quality

    found = quality(quality_ask(args), note)
    tell(args, found, show_quality)
    return exit_code(found)


def _isa(args: argparse.Namespace) -> int:
    from .isa import IsaAsk, exit_code, isa, show_isa

    found = isa(IsaAsk(target=args.target, pid=args.pid, precision=args.precision,
                       only_named=args.kernels), note)  # fmt: skip
    tell(args, found, show_isa)
    return exit_code(found)


def _pmu(args: argparse.Namespace) -> int:
    from .pmu import run

    return run(args, note)


def _verify(args: argparse.Namespace) -> int:
    from pathlib import Path

    if args.claims:
        return _claims(args)
    if not args.run:
        raise AskError("nothing to verify was named; give a run folder, or --claims FILE")
    from .verify import show_verified, verify

    found = verify(Path(args.run), args.head, args.repair, note)
    tell(args, found, lambda checked: show_verified(args.run, checked))
    return EXIT_MET


def _claims(args: argparse.Namespace) -> int:
    from pathlib import Path

    from .claims import exit_code, show_claims, verify_claims

    if args.run or args.head or args.repair:
        raise AskError("--claims checks a table alone; leave run folder, --head and --repair out")
    found = verify_claims(Path(args.claims), args.catalog, not args.offline)
    tell(args, found, show_claims)
    return exit_code(found)


def _dispatch_proof(args: argparse.Namespace) -> int:
    from .dispatch import DispatchAsk, dispatch, exit_code, show_dispatch

    ask = DispatchAsk(
        log=args.log, perf=args.perf, pid=args.pid, duration_s=args.duration, ran=args.ran
    )
    found = dispatch(ask, note)
    tell(args, found, show_dispatch)
    return exit_code(found)


def _import(args: argparse.Namespace) -> int:
    from pathlib import Path

    from .exchange import import_results, show_imported

    found = import_results(Path(args.file), args.out)
    tell(args, found, show_imported)
    return EXIT_MET


def _export(args: argparse.Namespace) -> int:
    from pathlib import Path

    from .exchange import export_trial

    say(export_trial(Path(args.run), args.to, args.trial, args.json))
    return EXIT_MET


def _recipe(args: argparse.Namespace) -> int:
    from pathlib import Path

    from .recipe import check_out, show_written, write_recipe

    written, made = write_recipe(Path(args.run), args.to, args.out, args.output_tokens_per_month)
    check_out(args.to, args.out, args.json, len(made.files))
    if args.json:
        show_json(written.to_json())
    elif args.out:
        say(show_written(written, args.out))
    else:
        say("".join(made.files.values()).rstrip("\n"))
    return EXIT_MET


def _gate(args: argparse.Namespace) -> int:
    from .gate_command import command

    return command(args, say, show_json, note)


def _watch(args: argparse.Namespace) -> int:
    from .watch import run

    return run(args, say, note)


def _demo(args: argparse.Namespace) -> int:
    from .demo import run

    return run(args.minutes, args.out, note, as_json=args.json)


COMMANDS: tuple[Command, ...] = (
    Command(
        "predict", "capacity, latency, throughput and cost of one configuration", _predict,
        (*WORKLOAD, *ONE, *ENGINE, *MONEY, CATALOG, OFFLINE, JSON),
        (("model", {"help": MODEL_HELP}),
         ("--on", {"required": True, "metavar": "HW", "help": HARDWARE_HELP})),
        "neoserve predict Qwen/Qwen3-32B --on H100-SXM --tp 2 --max-concurrency 64 --isl 1000",
    ),
    Command(
        "plan", "rank hardware, parallelism, quantization and settings by cost", _plan,
        (*WORKLOAD, *MANY, *ENGINE, *MONEY, CATALOG, OFFLINE, JSON),
        (("model", {"help": MODEL_HELP}),
         ("--on", {"required": True, "metavar": "HW,HW", "help": HARDWARE_HELP})),
        "neoserve plan Qwen/Qwen3-32B --on H100-SXM,L40S --rate 4 --isl 1000 --osl 300 "
        "--slo 'ttft:mean<2s; tpot:mean<50ms'",
    ),
    Command(
        "compare", "one model and load on several machines; beside runs and published figures",
        _compare, (*BESIDE, *WORKLOAD, *COMPARE, *ENGINE, *MONEY, CATALOG, OFFLINE, JSON),
        (("model", {"nargs": "?", "default": "", "help": MODEL_HELP}),
         ("--on", {"default": "", "metavar": "HW,HW", "help": HARDWARE_HELP})),
        "neoserve compare Qwen/Qwen3-8B --on L4,L40S,c8g.16xlarge --rate 4 --isl 1000 --osl 300 "
        "--slo 'ttft:mean<5s; tpot:mean<150ms'",
    ),
    Command(
        "cost", "what a month costs at a volume of output tokens, on machines or by a run", _cost,
        (*WORKLOAD, *ONE, *ENGINE, *MONEY, *COST, CATALOG, OFFLINE, JSON),
        (("model", {"help": f"{MODEL_HELP}; or a run folder that holds a recommendation"}),
         ("--on", {"default": "", "metavar": "HW,HW", "help": HARDWARE_HELP})),
        "neoserve cost Qwen/Qwen3-8B --on L4,L40S --output-tokens-per-month 5e9 --isl 1000 "
        "--osl 300 --slo 'tpot:mean<50ms' --against 0.6",
    ),
    Command(
        "fleet", "the cheapest mix of replicas for demand that varies, over machines, prices, SLOs",
        _fleet, (*FLEET, CATALOG, OFFLINE, JSON),
        (("what", {"metavar": "FILE|MODEL",
                   "help": "a fleet's TOML file, or one model with --on, --demand and --slo"}),),
        "neoserve fleet Qwen/Qwen3-8B --on g6.xlarge,g6e.xlarge --demand 2,2,5,9,12,8 --isl 1000 "
        "--osl 300 --slo 'ttft:p95<2s; tpot:p95<60ms'",
    ),
    Command(
        "catalog", "look up hardware, instances, prices, models, engines, quantization", _catalog,
        (CATALOG, JSON),
        (("what", {"choices": ("hardware", "instances", "models", "architectures", "engines",
                               "quantization"), "help": "what to list"}),
         ("name", {"nargs": "?", "default": "", "help": "one entry in full, or a part of a name"})),
        "neoserve catalog hardware L40S",
    ),
    Command(
        "accuracy", "predictions against public measurements", _accuracy, (JSON,),
        (("what", {"choices": ("kv", "oracle", "latency"), "help": "which kind of truth"}),
         ("--truth", {"required": True, "metavar": "FILE", "help": "the measurements"}),
         ("--configs", {"action": "append", "metavar": "DIR",
                        "help": "where rows' config files are too (repeatable)"})),
        "neoserve accuracy oracle --truth kv_oracle.jsonl",
    ),
    Command(
        "calibrate", "measure this device's speed in minutes; predict and plan take the profile",
        _calibrate, (*CALIBRATE, JSON),
        (("model", {"nargs": "*", "default": [], "metavar": "MODEL",
                    "help": "of --engine, one or several (llama.cpp: the embedded one)"}),),
        "neoserve calibrate --engine llama.cpp --budget 3m",
        rest="engine_args",
    ),
    Command(
        "bench", "load a running or started server; certified verdict on an SLO", _bench,
        (*BENCH, JSON),
        (("target", {"nargs": "?", "default": "", "metavar": "URL|MODEL",
                     "help": "a server that runs, or the model of --engine"}),),
        "neoserve bench http://localhost:8000 --request-rate 4 --isl 1000 --osl 300 "
        "--slo 'ttft:p95<3s; tpot:p95<200ms'",
        rest="engine_args",
    ),
    Command(
        "tune", "search an engine's settings on this host; certify and hand over the best", _tune,
        (*TUNE, JSON),
        (("model", {"nargs": "?", "default": "", "metavar": "MODEL",
                    "help": "GGUF file, checkpoint folder or name, as the engine takes it"}),),
        "neoserve tune models/qwen --engine vllm --isl 512 --osl 128 "
        "--slo 'ttft:p95<3s; tpot:p95<200ms' --budget 2h",
        rest="engine_args",
    ),
    Command(
        "selftest", "is this host's load client truthful at a planned load?", _selftest,
        (*SELFTEST, JSON), (), "neoserve selftest --streams 100 --itl 10ms",
    ),
    Command(
        "quality", "perplexity of a served model, and whether it keeps to a budget", _quality,
        (*QUALITY, JSON),
        (("target", {"metavar": "URL|MODEL",
                     "help": "a server that runs, or a GGUF file, folder or name to start"}),),
        "neoserve quality model-q4.gguf --against model-f16.gguf --budget 4%",
        rest="engine_args",
    ),
    Command(
        "isa", "which dot and matrix instructions a binary holds, and its kernels by precision",
        _isa, (*ISA, JSON),
        (("target", {"nargs": "?", "default": "", "metavar": "FILE|WHEEL|PACKAGE",
                     "help": "an ELF file, a wheel, or the name of an installed package"}),),
        "neoserve isa libtorch_cpu.so --precision w4a8",
    ),
    Command(
        "pmu", "count what the CPU does while an engine works: top-down, IPC, or the kernel's word",
        _pmu, (*PMU, JSON),
        (("target", {"nargs": "?", "default": "", "metavar": "URL",
                     "help": "a server that runs on this host"}),),
        "neoserve pmu http://localhost:8000 --seconds 30",
    ),
    Command(
        "verify", "check a run's chain, artifacts and arithmetic; or anybody's published table",
        _verify, (CATALOG, OFFLINE, JSON),
        (("run", {"nargs": "?", "default": "", "help": "a run folder"}),
         ("--claims", {"default": "", "metavar": "FILE",
                       "help": "instead of a run: a published table (TOML or CSV)"}),
         ("--head", {"default": "", "metavar": "SHA256", "help": "the ledger's published head"}),
         ("--repair", {"action": "store_true",
                       "help": "after a crash: cut a torn last line, judge rows left behind"})),
        "neoserve verify runs/demo",
    ),
    Command(
        "dispatch", "which kernels really ran: oneDNN's log, samples of perf, mapped libraries",
        _dispatch_proof, (*DISPATCH, JSON), (),
        "neoserve dispatch --log engine.log --ran 'matmul.*bf16'",
    ),
    Command(
        "import", "read results of vllm bench serve, GuideLLM, AIPerf, inference-perf, genai-bench",
        _import, (JSON,),
        (("file", {"help": "a result file of one of them"}),
         ("--out", {"default": "", "metavar": "DIR", "help": "keep it in this new run folder"})),
        "neoserve import benchmarks.json",
    ),
    Command(
        "export", "a trial in another tool's format", _export, (JSON,),
        (("run", {"help": "a run folder"}),
         ("--to", {"choices": ("vllm", "br"), "required": True,
                   "help": "vllm bench serve's JSON, or llm-d's benchmark report 0.2.1 (YAML)"}),
         ("--trial", {"type": int, "default": -1, "help": "its number from 1 (the last)"})),
        "neoserve export runs/bench --to vllm",
    ),
    Command(
        "recipe", "files that serve what a campaign picked, exactly as it was measured", _recipe,
        (JSON,),
        (("run", {"help": "a run folder that holds a recommendation"}),
         ("--to", {"choices": ("compose", "systemd", "k8s", "kserve", "vllm", "dockerfile", "run",
                               "cost", "checkpoint", "all"), "default": "all",
                   "help": "what is to run it; one file alone goes to stdout (all)"}),
         ("--out", {"default": "", "metavar": "DIR", "help": "write the files here"}),
         ("--output-tokens-per-month", {"type": real, "metavar": "N",
                                        "help": "a volume to price in the cost card, e.g. 5e9"})),
        "neoserve recipe runs/tune --to all --out recipe",
    ),
    Command(
        "gate", "pass or fail for continuous integration: SLO, cost budget, regression", _gate,
        (*GATE, JSON),
        (("subject", {"metavar": "RUN|FILE|URL",
                      "help": "run folder, another tool's result file, a prediction's YAML file, "
                              "or a server to measure"}),),
        "neoserve gate runs/bench --slo 'ttft:p95<3s' --baseline baseline/bench",
    ),
    Command(
        "watch", "a running server's metrics against its SLO and its certified capacity", _watch,
        (*WATCH, JSON), (("url", {"metavar": "URL", "help": "a server that runs"}),),
        "neoserve watch http://localhost:8000 --against runs/tune --listen 9109",
    ),
    Command(
        "ui", "serve the dashboard, its JSON and the agents' tools on one port", _ui, LISTEN,
        (("results", {"nargs": "*", "default": [], "metavar": "RESULTS_DIR",
                      "help": "folders of run folders, or run folders (runs)"}),),
        "neoserve ui runs results/canonical",
    ),
    Command(
        "mcp", "serve agents: the same answers as tools, over stdio or HTTP", _mcp, MCP, (),
        "neoserve mcp --results runs",
    ),
    Command(
        "demo", "the whole way on the embedded engine: plan, tune, guard, prove, hand over", _demo,
        (JSON,),
        (("--minutes", {"type": float, "default": 3.5, "help": "of engine time to search (3.5)"}),
         ("--out", {"default": "runs/demo", "metavar": "DIR", "help": "run folder (runs/demo)"})),
        "neoserve demo",
    ),
)  # fmt: skip


def parser_of(command: Command) -> Parser:
    """The parser of one command."""
    parser = Parser(
        prog=f"neoserve {command.name}",
        description=command.help[0].upper() + command.help[1:] + ".",
        epilog=f"example:\n  {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # an example is copied as it is
        allow_abbrev=False,
    )
    for name, words in command.arguments:
        parser.add_argument(name, **words)
    add_options(parser, command.options)
    return parser


def overview() -> str:
    """What `neoserve --help` prints."""
    width = max(len(c.name) for c in COMMANDS)
    lines = "\n".join(f"  {c.name.ljust(width)}  {c.help}" for c in COMMANDS)
    return (
        "usage: neoserve COMMAND ...\n\n"
        "At my traffic and my latency SLO, which serving configuration gives tokens cheapest?\n\n"
        f"{lines}\n\n"
        "Each command has --help and --json. Exit codes: 0 met, 1 not met, 2 bad ask,\n"
        "3 inconclusive, 4 engine or host failed, 5 evidence broken."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    undo = _end_as_by_ctrl_c()
    try:
        return _dispatch(words)
    except Error as error:
        note(f"neoserve: {one_line(error)}")
        return error.exit_code
    except KeyboardInterrupt:
        note("neoserve: interrupted")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_MET
    finally:
        undo()


def _end_as_by_ctrl_c() -> Callable[[], None]:
    """A polite end by the system is handled as the user's own: what was measured is kept.

    So it is where the caller had Ctrl-C ignored, as `nohup ... &` in a script does: without it,
    `kill` would do nothing. Returns what undoes it.
    """
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def undo() -> None:
        signal.signal(signal.SIGTERM, before)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return undo


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        say(overview())
        return EXIT_MET
    if words[0] in ("-V", "--version"):
        say(f"neoserve {__version__}")
        return EXIT_MET
    command = next((c for c in COMMANDS if c.name == words[0]), None)
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(words[0], [c.name for c in COMMANDS], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AskError(f"unknown command {words[0]!r}{hint} `neoserve --help` lists them")
    words, rest = words[1:], []
    if command.rest and "--" in words:
        cut = words.index("--")
        words, rest = words[:cut], words[cut + 1 :]
    args = parser_of(command).parse_args(words)
    if command.rest:
        setattr(args, command.rest, tuple(rest))
    return command.run(args)


def one_line(error: Error) -> str:
    """One sentence of readable length, whatever a file or an argument held."""
    text = " ".join(str(error).split())
    return text if len(text) <= MAX_SENTENCE else f"{text[:300]} ... {text[300 - MAX_SENTENCE:]}"


def say(text: str) -> None:
    """Data, on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tell(args: argparse.Namespace, document: D, text_of: Callable[[D], str]) -> None:
    """A command's answer: the document itself with --json, else its text."""
    if args.json:
        show_json(msgspec.json.encode(document))
    else:
        say(text_of(document))


def show_json(document: bytes) -> None:
    """A document, readable by people too."""
    say(msgspec.json.format(document, indent=2).decode())


def note(text: str) -> None:
    """Progress and complaints, on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())

