"""From the options of `neoserve tune` to what it searches."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from ..errors import EXIT_MET, AskError
from ..measure.engine.driver import flag_value
from ..schema.workload import Slo, Workload
from ..tune.forecast import forecast
from ..tune.space_file import space_toml
from ..units import parse_duration_s
from .bench_ask import price_of
from .tune import TuneAsk, exit_code, prepare, resume, search, start_campaign
from .tune_tables import show_plan, show_tuned


def run(args: argparse.Namespace, note: Callable[[str], None]) -> int:
    """Search, or say what would be searched. Returns the exit code."""
    if args.resume:
        _refuse_more(args)
        found = resume(Path(args.resume), note)
    else:
        ask = tune_ask(args)
        ready = prepare(ask, note)
        if args.print_space:
            print(space_toml(ready.campaign.space))
            return EXIT_MET
        if args.dry_run:
            print(ready.plan.to_pretty_json() if args.json else
                  show_plan(ready.plan, ready.campaign.rejected, forecast(ready.plan)))  # fmt: skip
            return EXIT_MET
        found = search(start_campaign(ask, ready), ready.campaign, ready.plan, [], note)
    print(show_tuned(found.recommendation, str(found.folder), found.head, args.json))
    return exit_code(found.recommendation)


def _refuse_more(args: argparse.Namespace) -> None:
    given = {"MODEL": args.model, "--slo": args.slo, "--space": args.space, "--budget": args.budget,
             "arguments after --": args.engine_args}  # fmt: skip
    if also := [name for name, value in given.items() if value]:
        raise AskError(
            f"--resume goes on with what the folder was asked: leave out {', '.join(also)}"
        )


def tune_ask(args: argparse.Namespace) -> TuneAsk:
    """Raises AskError."""
    budget = budgets(args.budget or [])
    usd_per_hour, source = price_of(args)
    if budget.get("budget_usd") and not usd_per_hour:
        raise AskError("a budget in dollars needs what this host costs: give --price or --on")
    if len(args.rungs) != 3 or not 0 < args.rungs[0] < args.rungs[1] <= args.rungs[2]:
        raise AskError("--rungs takes three growing numbers of requests, such as 40,150,400")
    for flag, value in (("--max-candidates", args.max_candidates),
                        ("--certify-requests", args.certify_requests),
                        ("--certify-seeds", args.certify_seeds),
                        ("--workers", args.workers)):  # fmt: skip
        if value < 1:
            raise AskError(f"{flag} is {value}; expected at least 1")
    if args.rate is not None and not 0 < args.rate <= 1e5:
        raise AskError(f"--request-rate is {args.rate:g}; expected requests per second up to 10^5")
    if args.isl < 1 or args.osl < 1:
        raise AskError(f"--isl {args.isl}, --osl {args.osl}: expected at least 1 token of each")
    if args.timeout <= 0:
        raise AskError(f"--timeout is {args.timeout:g}; expected seconds above 0")
    if not 0 < args.tolerance < 0.5 or args.burstiness <= 0:
        raise AskError("--tolerance has to lie between 0 and 50 %, --burstiness above 0")
    return TuneAsk(
        model=args.model,
        engine={"llamacpp": "llama.cpp"}.get(args.engine, args.engine),
        device=args.device,
        workload=Workload(
            arrival="poisson" if args.burstiness == 1.0 else "gamma",
            burstiness=args.burstiness,
            rate_rps=args.rate or 0.0,
            prompt_tokens=args.isl,
            output_tokens=args.osl,
            prompt_tokens_cv=args.isl_cv,
            output_tokens_cv=args.osl_cv,
            prefix_hit_share=args.prefix_hit_share,
            turns=args.turns,
            think_time_s=args.think_time,
            dataset=args.dataset_path,
            ignore_eos=args.ignore_eos,
            seed=args.seed,
        ),
        slo=Slo.parse_text(args.slo),
        space_file=args.space,
        checkpoints=_checkpoints(args.checkpoint or []),
        pins=pinned(args.engine_args),
        out=args.out,
        max_candidates=args.max_candidates,
        rungs=args.rungs,
        num_certify=args.certify_requests,
        num_seeds=args.certify_seeds,
        num_finalists=args.finalists,
        tolerance=args.tolerance,
        quality_text=args.quality_text,
        quality_words=args.quality_words,
        quality_task=args.quality_task,
        route=args.route,
        workers=args.workers,
        timeout_s=args.timeout,
        usd_per_hour=usd_per_hour,
        price_source=source,
        counts=args.pmu == "auto",
        **budget,  # type: ignore[arg-type]
    )


def budgets(texts: list[str]) -> dict[str, float | int]:
    """``30m``, ``50 trials``, ``$5`` → the plan's fields. Raises AskError."""
    found: dict[str, float | int] = {}
    for text in texts:
        words = text.strip().lower()
        try:
            if words.startswith("$"):
                found["budget_usd"] = float(words[1:])
            elif words.endswith(("trials", "trial")):
                found["budget_trials"] = int(words.split("trial")[0])
            else:
                found["budget_s"] = parse_duration_s(words)
        except (ValueError, AskError):
            raise AskError(f"--budget {text!r}: expected 30m, '50 trials' or '$5'") from None
        if not all(0 < value < math.inf for value in found.values()):
            raise AskError(f"--budget {text!r} is nothing to spend; expected more than 0")
    return found


def _checkpoints(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not name or not path:
            raise AskError(f"--checkpoint {pair!r} is not NAME=PATH, such as w8a8=models/w8a8")
        found[name] = path
    return found


def pinned(words: tuple[str, ...]) -> dict[str, str]:
    """The engine's own arguments after ``--``: the same in every candidate. Raises AskError."""
    found: dict[str, str] = {}
    for i, word in enumerate(words):
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            following = words[i + 1] if i + 1 < len(words) else "-"
            plain = "" if following.startswith("-") else following
            found[name] = value if equals else plain
        elif i == 0 or not words[i - 1].startswith("-") or "=" in words[i - 1]:
            raise AskError(f"{word!r} after -- follows no flag; expected --flag value")
    if flag_value(words, "--host", "--port") is not None:
        raise AskError("--host and --port are chosen when the engine starts: leave them out")
    return found
