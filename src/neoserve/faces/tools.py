"""What agents and pages may ask, once: names, words, and the function behind each.

A face looks its tool up here, hands over named values and shows the document that comes back; what
is answered is decided below, by the functions that the command line calls.
"""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import AskError
from ..evidence.recommended import recommended
from ..recipe.bundle import KINDS
from ..schema.answers import CostProjection, HardwareComparison, HardwareList, ModelList
from ..schema.base import Document
from ..schema.evidence import Verified
from ..schema.prediction import Plan, Prediction
from ..schema.recipe import Written
from ..schema.runs import CampaignState, RunList, TrialStory
from .ask import answer_plan, answer_predict
from .campaigns import CAMPAIGN, START, Campaigns
from .compare import compare_hardware
from .lookup import list_hardware, list_models
from .money import measured_cost, project_cost
from .options import (
    CATALOG,
    COMPARE,
    COST,
    ENGINE,
    MODEL_HELP,
    MONEY,
    OFFLINE,
    ONE,
    RUN,
    VOLUME,
    WORKLOAD,
    Option,
    whole,
)
from .recipe import write_recipe
from .requests import compare_ask, cost_asks, plan_ask, predict_ask
from .run_view import list_runs
from .story import explain_trial
from .tool import Desk, Tool
from .verify import verify

_LISTED = 5  # by default: an answer has to leave room for others


MODEL = Option(("--model",), MODEL_HELP, default="")
ON = Option(("--on",), "catalog id, cloud instance or a count of one, e.g. H100-SXM, c8g.4xlarge, "
            "8xL40S", default="")  # fmt: skip
MANY_ON = Option(("--on",), "machines, e.g. L4, L40S, c8g.4xlarge; text has commas between them",
                 many=True, default=())  # fmt: skip
_KEEP = Option(("--keep",), "candidates in the answer (3)", whole, default=3)
_NAME = Option(("--name",), "a part of the id; an instance's finds its device", default="")
_LIMIT = Option(("--limit",), "entries in full (5)", whole, default=_LISTED)
_PREDICT = (*WORKLOAD, *ONE, *ENGINE, *MONEY, CATALOG, OFFLINE)


def _predict(_: Desk, args: argparse.Namespace) -> Document:
    return answer_predict(predict_ask(args))


def _plan(_: Desk, args: argparse.Namespace) -> Document:
    return answer_plan(plan_ask(args))


def _compare(_: Desk, args: argparse.Namespace) -> Document:
    return compare_hardware(compare_ask(args))


def _cost(desk: Desk, args: argparse.Namespace) -> Document:
    if args.run:
        if args.model or args.on:
            raise AskError("run is measured, model and on are predicted: give one of the two")
        found = recommended(desk.results.find(args.run)).recommendation
        return measured_cost(args.run, found, args.output_tokens_per_month, args.against,
                             args.price)  # fmt: skip
    if not args.model or not args.on:
        raise AskError("give model and on (several with commas) to predict, or run to count with "
                       "what was measured")  # fmt: skip
    return project_cost(cost_asks(args), args.against)


def _recipe(desk: Desk, args: argparse.Namespace) -> Document:
    written, _ = write_recipe(_with_recommendation(desk, args.run), args.to, "",
                              args.output_tokens_per_month)  # fmt: skip
    return written


def _with_recommendation(desk: Desk, run: str) -> Any:
    """The run that is named, or the only one that holds a recommendation."""
    if run:
        return desk.results.find(run)
    ended = [r.id for r in list_runs(desk.results).runs if r.kind == "tune" and r.status == "ended"]
    if len(ended) == 1:
        return desk.results.find(ended[0])
    told = f"several do: {', '.join(ended)}" if ended else "none does: `neoserve tune` makes one"
    raise AskError(f"no run is named, and of those that hold a recommendation {told}; "
                   "recommend_config gives a predicted command without one")  # fmt: skip


def _explain(desk: Desk, args: argparse.Namespace) -> Document:
    return explain_trial(desk.results, args.run, args.trial)


def _verify(desk: Desk, args: argparse.Namespace) -> Document:
    return verify(desk.results.find(args.run), args.head, False, lambda _: None)


def _runs(desk: Desk, _: argparse.Namespace) -> Document:
    return list_runs(desk.results)


def _campaigns(desk: Desk) -> Campaigns:
    if desk.campaigns is None:
        raise AskError("no campaign is started here: the server needs --allow-tune, and who asks "
                       "over HTTP its token")  # fmt: skip
    return desk.campaigns


def _start(desk: Desk, args: argparse.Namespace) -> Document:
    return _campaigns(desk).start(args)


def _status(desk: Desk, args: argparse.Namespace) -> Document:
    return _campaigns(desk).state(args.id)


def _stop(desk: Desk, args: argparse.Namespace) -> Document:
    return _campaigns(desk).stop(args.id)


def _hardware(_: Desk, args: argparse.Namespace) -> Document:
    return list_hardware(args.name, args.kind or "", args.limit)


def _models(_: Desk, args: argparse.Namespace) -> Document:
    return list_models(args.name, args.limit)


TOOLS: tuple[Tool, ...] = (
    Tool(
        "recommend_config", "Cheapest serving configuration",
        "Rank hardware, parallelism, quantization and settings for a model by predicted cost "
        "within a latency SLO. Predicted from data sheets: with intervals, not measured.",
        (MODEL, MANY_ON, *WORKLOAD, *COMPARE, _KEEP, *ENGINE, *MONEY, CATALOG, OFFLINE),
        ("model", "on"), Plan, _plan, is_predicted=True,
    ),
    Tool(
        "predict", "Predict one configuration",
        "Memory, KV capacity, TTFT, TPOT, throughput and cost of one configuration, predicted "
        "without a GPU; says what limits it and what it assumes.",
        (MODEL, ON, *_PREDICT), ("model", "on"), Prediction, _predict, is_predicted=True,
    ),
    Tool(
        "compare_hardware", "Hardware side by side",
        "One model and load on up to 16 machines, each at its predicted best: latency, throughput, "
        "price, cost per million tokens, whether the SLO is kept.",
        (MODEL, MANY_ON, *WORKLOAD, *COMPARE, *ENGINE, *MONEY, CATALOG, OFFLINE),
        ("model", "on"), HardwareComparison, _compare, is_predicted=True,
    ),
    Tool(
        "project_cost", "Monthly cost at a volume",
        "Replicas and dollars a month for a volume of output tokens: predicted for model and on, "
        "or by a measured run's certified rate. Prices carry their source and date.",
        (MODEL, MANY_ON, RUN, *_PREDICT, *COST), ("output_tokens_per_month",), CostProjection,
        _cost, is_predicted=True,
    ),
    Tool(
        "get_serving_recipe", "Files that serve a measured configuration",
        "The file that starts what a campaign picked, with the measured arguments word for word, "
        "the certified rate and the ledger head; `to` names its kind.",
        (RUN,
         Option(("--to",), "what is to run it; all lists every file's digest",
                choices=(*KINDS, "all"), default="run"),
         VOLUME),
        (), Written, _recipe,
    ),
    Tool(
        "explain_trial", "What one trial says",
        "What ran, under which load, what was proven and where the evidence is; without a number "
        "the trial that the run's answer rests on.",
        (RUN, Option(("--trial",), "its number from 1", whole)), ("run",), TrialStory, _explain,
    ),
    Tool(
        "verify_ledger", "Check a run's evidence",
        "Hash chain, every artifact's digest, and every figure computed again from raw rows; an "
        "error names the line that does not hold.",
        (RUN, Option(("--head",), "the ledger's published head, SHA-256", default="")), ("run",),
        Verified, _verify,
    ),
    Tool(
        "list_runs", "Measured runs", "The run folders that can be asked about, newest first, each "
        "with one sentence of what it found.", (), (), RunList, _runs,
    ),
    Tool(
        "list_hardware", "Hardware in the catalog",
        "Devices with memory, bandwidth, peaks and the cheapest listed price, each fact with its "
        "published source and date.",
        (_NAME, Option(("--kind",), "gpu, cpu ...", choices=("gpu", "cpu", "igpu", "tpu", "npu")),
         _LIMIT), (), HardwareList, _hardware,
    ),
    Tool(
        "list_models", "Models in the catalog",
        "Bundled models with parameters, kind and context; others are read from a folder, a "
        "config.json, a GGUF file or the hub.",
        (_NAME, Option(("--limit",), "entries (20)", whole, default=20)), (), ModelList, _models,
    ),
)  # fmt: skip
WORK: tuple[Tool, ...] = (
    Tool(
        "start_tune", "Start a campaign on this host",
        "Search an engine's settings here under load, for minutes to hours, one campaign at a "
        "time; a budget such as 30m ends it (10m). The answer comes after wait_s or at its end, "
        "with progress meanwhile; cancelling the call stops it and keeps what was measured.",
        START, ("slo",), CampaignState, _start, is_work=True, changes=True, is_repeatable=False,
    ),
    Tool(
        "tune_status", "How a campaign goes", "Whether it still runs, and the last of what it "
        "says; its evidence is in the run of the same name.",
        (CAMPAIGN,), ("id",), CampaignState, _status, is_work=True,
    ),
    Tool(
        "stop_tune", "Stop a campaign", "As Ctrl-C: what was measured is kept, and concluded from; "
        "`neoserve tune --resume` goes on with it.",
        (CAMPAIGN,), ("id",), CampaignState, _stop, is_work=True, changes=True,
    ),
)  # fmt: skip
BY_NAME = {tool.name: tool for tool in (*TOOLS, *WORK)}
