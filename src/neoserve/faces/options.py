"""Every command-line option, once: its words serve --help and the documentation."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from ..errors import AskError
from ..units import parse_bytes, parse_duration_s, parse_share, parse_tokens

MODEL_HELP = "bundled or hub id, checkpoint folder, config.json or GGUF file"


class Option(Struct, frozen=True):
    """One option: flags, reader, placeholder, help."""

    flags: tuple[str, ...]
    help: str
    read: Callable[[str], Any] = str
    metavar: str = ""
    default: Any = None
    choices: tuple[str, ...] = ()
    switch: bool = False
    both: bool = False  # --x and --no-x
    many: bool = False  # comma-separated list
    again: bool = False  # may be given several times
    dest: str = ""

    @property
    def name(self) -> str:
        """The attribute that argparse stores it under."""
        return self.dest or self.flags[0].lstrip("-").replace("-", "_")

    @property
    def names(self) -> tuple[str, ...]:
        """Its flags as keyword arguments."""
        return tuple(flag.lstrip("-").replace("-", "_") for flag in self.flags)

    @property
    def start(self) -> Any:
        """Its value where it is left out."""
        return False if self.switch else self.default


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Declare options on a parser."""
    for option in options:
        words: dict[str, Any] = {"help": option.help.replace("%", "%%"), "default": option.start}
        if option.dest:
            words["dest"] = option.dest
        if option.both:
            words["action"] = argparse.BooleanOptionalAction
        elif option.switch:
            words["action"] = "store_true"
        else:
            words["action"] = "append" if option.again else "store"
            words["type"] = reader_of(option)
            if option.choices:
                words["choices"] = option.choices
            elif option.metavar:
                words["metavar"] = option.metavar
        parser.add_argument(*option.flags, **words)


def reader_of(option: Option) -> Callable[[str], Any]:
    """What turns the text of an option into its value."""
    return _list_of(option.read) if option.many else option.read


def _list_of(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def parse(text: str) -> tuple[Any, ...]:
        items = [part.strip() for part in text.split(",") if part.strip()]
        if not items:
            raise AskError("an empty list was given; expected values between commas")
        return tuple(read(item) for item in items)

    return parse


def whole(text: str) -> int:
    """A whole number; 8k and 8Ki are read too."""
    return parse_tokens(text)


def real(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        raise AskError(f"{text!r} is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise AskError(f"{text!r} is not finite; give a plain number")
    return value


def price(text: str) -> float:
    """Dollars an hour."""
    value = real(text.strip().lstrip("$"))
    if value < 0:
        raise AskError(f"price {text!r} is negative; give dollars per hour, for example 0.638")
    return value


def gib(text: str) -> int:
    """A number of GiB, as logs print it."""
    value = real(text)
    if value < 0:
        raise AskError(f"{text!r} is negative; give GiB, for example 24.5")
    return int(value * 2**30)


def yes_no(text: str) -> bool:
    """yes or no."""
    words = {"yes": True, "true": True, "on": True, "1": True,
             "no": False, "false": False, "off": False, "0": False}  # fmt: skip
    if text.lower() not in words:
        raise AskError(f"{text!r} is neither yes nor no")
    return words[text.lower()]


JSON = Option(("--json",), "print the document instead of a table", switch=True)
CATALOG = Option(("--catalog",), "YAML file with hardware, instances and prices of your own",
                 metavar="FILE", default="")  # fmt: skip
OFFLINE = Option(("--offline",), "never ask the hub for a model", switch=True)

WORKLOAD = (
    Option(("--isl", "--prompt-tokens", "--input-len"), "prompt tokens of a request (512)", whole,
           "N", 512, dest="isl"),
    Option(("--osl", "--output-tokens", "--output-len"), "output tokens of a request (128)", whole,
           "N", 128, dest="osl"),
    Option(("--max-concurrency", "--concurrency"), "closed load: requests kept in flight (1)",
           whole, "N", dest="concurrency"),
    Option(("--request-rate", "--rate"), "open load: requests per second", real, "RPS",
           dest="rate"),
    Option(("--burstiness",), "1 is Poisson, below 1 burstier (gamma), as vllm bench serve", real,
           "B", 1.0),
    Option(("--prefix-hit-share",), "share of prompt tokens already in the prefix cache",
           parse_share, "SHARE", 0.0),
    Option(("--slo", "--goodput"), "what has to hold, e.g. 'ttft:p95<3s; tpot:p95<200ms'",
           metavar="SLO", default=""),
    Option(("--simulate",), "percentiles, request by request (on where the SLO names one, or "
           "lengths or arrivals vary)", both=True),
    Option(("--arrival",), "law of an open load's arrivals (poisson); others are simulated",
           choices=("poisson", "constant", "gamma", "mmpp", "ramp")),
    Option(("--trace",), "replay arrivals and lengths of an Azure, BurstGPT or Mooncake trace; "
           "with --arrival or --max-concurrency, its lengths alone", metavar="FILE", default=""),
    Option(("--isl-cv",), "spread of prompt lengths: lognormal with this standard deviation over "
           "mean (0: all the same)", real, "CV", 0.0),
    Option(("--osl-cv",), "the same for outputs (0)", real, "CV", 0.0),
    Option(("--turns",), "turns of a conversation; the rate is of conversations (1)", whole, "N",
           1),
    Option(("--think-time",), "between an answer and the next turn (0s)", parse_duration_s, "TIME",
           0.0),
    Option(("--num-prompts", "--num-requests"), "requests that are simulated (400)", whole, "N",
           dest="num_prompts"),
    Option(("--seed",), "of the simulated schedule: with it `bench` sends the same (0)", whole, "N",
           0),
)  # fmt: skip

MONEY = (
    Option(("--profile",), "DeviceProfile of this hardware (JSON): its measured speed replaces the "
           "catalog's", metavar="FILE", default=""),
    Option(("--price",), "dollars per hour of the hardware named; replaces the catalog's", price,
           "USD"),
    Option(("--utilization",), "share of each hour that the machine is busy, for cost (1)",
           parse_share, "SHARE", 1.0),
    Option(("--memory",), "memory of each device, e.g. 24GiB; replaces the catalog's", parse_bytes,
           "SIZE"),
)  # fmt: skip

ENGINE = (
    Option(("--engine",), "vllm, sglang, llama.cpp or tensorrt-llm (vllm)", metavar="NAME",
           default="vllm"),
    Option(("--engine-version",), "its version; the newest known if left out", metavar="V",
           default=""),
    Option(("--max-model-len",), "longest request, prompt and output", whole, "N"),
    Option(("--gpu-memory-utilization",), "share of device memory that the engine may use",
           parse_share, "SHARE"),
    Option(("--block-size",), "tokens of a KV block", whole, "N"),
    Option(("--async-scheduling",), "schedule a batch while the last one runs", both=True),
    Option(("--mamba-ssm-cache-dtype",), "number format of recurrent states", default="auto",
           choices=("auto", "float32", "float16", "bfloat16")),
    Option(("--num-speculative-tokens",), "draft tokens by the checkpoint's own MTP head", whole,
           "N", 0),
    Option(("--disable-hybrid-kv-cache-manager",), "keep every token of windowed layers",
           switch=True),
)  # fmt: skip

ONE = (
    Option(("--tensor-parallel", "--tp", "--tensor-parallel-size"), "tensor parallel ranks (1)",
           whole, "N", 1, dest="tensor_parallel"),
    Option(("--pipeline-parallel", "--pp", "--pipeline-parallel-size"), "pipeline stages (1)",
           whole, "N", 1, dest="pipeline_parallel"),
    Option(("--expert-parallel", "--ep", "--enable-expert-parallel"), "whole experts on each rank",
           switch=True, dest="expert_parallel"),
    Option(("--decode-context-parallel", "--dcp"), "ranks that share a request's KV cache (1)",
           whole, "N", 1, dest="decode_context_parallel"),
    Option(("--weight-quant", "-q"), "checkpoint, fp8, w4a16, awq, w8a8, w4a8, nvfp4, q4_k_m ...",
           metavar="SCHEME", default="checkpoint"),
    Option(("--kv-cache-dtype",), "auto, bfloat16, fp8, int8_per_token_head, nvfp4 ...",
           metavar="DTYPE", default="auto"),
    Option(("--enforce-eager",), "no CUDA graphs", switch=True),
    Option(("--enable-prefix-caching",), "reuse the KV cache of shared prefixes (on)", both=True,
           default=True),
    Option(("--max-num-seqs",), "requests that run at once", whole, "N"),
    Option(("--max-num-batched-tokens",), "tokens of one step", whole, "N"),
    Option(("--replicas",), "copies side by side (1, or what an instance holds)", whole, "N", 1),
    Option(("--available-kv-bytes", "--available-bytes"),
           "KV cache bytes of a rank; replaces the memory budget", parse_bytes, "SIZE",
           dest="available_kv_bytes"),
    Option(("--output-tokens-per-month",), "a volume to size and price a fleet for, e.g. 5e9",
           real, "N"),
    Option(("--available-kv-gib",), "the same in GiB, as engines print it", gib, "GIB"),
)  # fmt: skip

MANY = (
    Option(("--tensor-parallel", "--tp"), "tensor parallel sizes to compare (1,2,4 ... devices)",
           whole, "N,N", many=True, dest="tensor_parallel"),
    Option(("--pipeline-parallel", "--pp"), "pipeline stages to compare (1)", whole, "N,N", (1,),
           many=True, dest="pipeline_parallel"),
    Option(("--expert-parallel", "--ep"), "no, yes or both (no)", yes_no, "no,yes", (False,),
           many=True, dest="expert_parallel"),
    Option(("--weight-quant", "-q"), "weight schemes to compare (checkpoint,fp8,w4a16 on GPUs; "
           "checkpoint,w8a8,w4a8 on CPUs)", metavar="A,B", many=True),
    Option(("--kv-cache-dtype",), "KV formats to compare (auto,fp8 where the hardware has fp8)",
           metavar="A,B", many=True),
    Option(("--enforce-eager",), "no, yes or both (no)", yes_no, "no,yes", (False,), many=True),
    Option(("--enable-prefix-caching",), "no, yes or both (both if a hit share is given)", yes_no,
           "no,yes", many=True),
    Option(("--max-num-seqs",), "values to compare (the engine's default)", whole, "N,N",
           many=True),
    Option(("--max-num-batched-tokens",), "values to compare (the engine's default)", whole, "N,N",
           many=True),
    Option(("--keep",), "candidates listed in the document (50)", whole, "N", 50),
    Option(("--plot",), "write the Pareto set, cost against latency, as SVG or PNG", metavar="FILE",
           default=""),
)  # fmt: skip

RUN = Option(("--run",), "id of a run folder, as the list of runs has it", metavar="RUN",
             default="")
VOLUME = next(option for option in ONE if option.name == "output_tokens_per_month")
COST = (
    Option(("--against",), "dollars per million output tokens elsewhere: from which volume on is a "
           "replica cheaper?", price, "USD"),
)  # fmt: skip
FLEET = (
    Option(("--on",), "of MODEL: what may be rented, as for plan; prices are the catalog's",
           metavar="HW,HW", default=""),
    Option(("--demand",), "of MODEL: a curve (CSV with rate_rps, hour by hour), a trace, or rates "
           "such as 2,5,9", metavar="FILE|RPS,RPS", default=""),
    Option(("--peak-rate",), "scale the curve so that its highest hour has this rate", real,
           "RPS", dest="peak_rate"),
    *(option for option in WORKLOAD if option.name in (
        "isl", "osl", "isl_cv", "osl_cv", "prefix_hit_share", "slo", "seed")),
    *(option for option in MANY if option.name in ("weight_quant", "kv_cache_dtype")),
    Option(("--spares",), "replicas that may be missing while the SLO is kept (1)", whole, "N", 1),
    Option(("--start-up",), "from an order until a replica serves; it is paid (5min)",
           parse_duration_s, "TIME", 300.0),
    Option(("--headroom",), "capacity above each hour's mean rate (0)", parse_share, "SHARE", 0.0),
    Option(("--sensitivity",), "solve again for other demand and prices (on)", both=True,
           default=True),
)  # fmt: skip
COMPARE = tuple(option for option in MANY if option.name not in ("keep", "plot"))
BESIDE = (
    Option(("--beside",), "run folder, another tool's result file, table of published figures "
           "(TOML, CSV) or a prediction's YAML file, under the same terms (repeatable)",
           metavar="PATH", again=True),
    Option(("--baseline",), "name of the side that gains are over (the first)", metavar="SIDE",
           default=""),
    Option(("--plot",), "write output tokens a second and a dollar, with intervals, as SVG",
           metavar="FILE", default=""),
)  # fmt: skip

_RATES = (
    Option(("--request-rate", "--rate"), "open load: requests per second", real, "RPS",
           dest="rate"),
    Option(("--max-concurrency", "--concurrency"), "closed load: requests kept in flight", whole,
           "N", dest="concurrency"),
    Option(("--arrival",), "law of an open load's arrivals (poisson)",
           choices=("poisson", "constant", "gamma", "mmpp", "ramp")),
    Option(("--burstiness",), "gamma arrivals: 1 is Poisson, below 1 burstier, as vllm bench serve",
           real, "B"),
    Option(("--burst-ratio",), "mmpp: rate in a burst over the mean rate (4)", real, "X", 4.0),
    Option(("--burst-share",), "mmpp: share of the time spent in bursts (0.1)", parse_share,
           "SHARE", 0.1),
    Option(("--burst-length",), "mmpp: mean length of a burst (10s)", parse_duration_s, "TIME",
           10.0),
    Option(("--ramp-up-start-rps",), "ramp: the rate at the start; the mean is --request-rate",
           real, "RPS"),
    Option(("--trace",), "replay arrivals and lengths of an Azure, BurstGPT or Mooncake trace; "
           "with --arrival, its lengths alone", metavar="FILE", default=""),
)  # fmt: skip

_SIZES = (
    Option(("--num-prompts", "--num-requests"), "measured requests (400, or what --duration says)",
           whole, "N", dest="num_prompts"),
    Option(("--duration",), "of an open load, instead of --num-prompts, e.g. 60s",
           parse_duration_s, "TIME"),
    Option(("--num-warmups",), "requests sent before the measured ones (a tenth, 5 to 50)", whole,
           "N"),
    Option(("--isl", "--prompt-tokens", "--input-len"), "prompt tokens of a request (512)", whole,
           "N", 512, dest="isl"),
    Option(("--osl", "--output-tokens", "--output-len"), "output tokens of a request (128)", whole,
           "N", 128, dest="osl"),
    Option(("--isl-cv",), "spread of prompt lengths: lognormal with this standard deviation over "
           "mean (0: all the same)", real, "CV", 0.0),
    Option(("--osl-cv",), "the same for outputs (0)", real, "CV", 0.0),
    Option(("--prefix-hit-share",), "share of each prompt that is the same in all of them (0)",
           parse_share, "SHARE", 0.0),
    Option(("--turns",), "turns of a conversation; each follows the answer before (1)", whole, "N",
           1),
    Option(("--think-time",), "between an answer and the next turn (0s)", parse_duration_s, "TIME",
           0.0),
    Option(("--dataset-path",), "prompts of your own: JSON lines with prompt or messages, or "
           "ShareGPT", metavar="FILE", default=""),
    Option(("--ignore-eos",), "answers are exactly --osl long (on); --no-ignore-eos: the model "
           "ends them", both=True, default=True),
    Option(("--seed",), "of schedule and prompts (0)", whole, "N", 0),
)  # fmt: skip

_JUDGING = (
    Option(("--slo", "--goodput"), "what has to hold, e.g. 'ttft:p95<3s; tpot:p95<200ms'",
           metavar="SLO", default=""),
    Option(("--full",), "go on to the last request when the SLO is decided, or the server "
           "saturated", switch=True),
    Option(("--repeat",), "trials on fresh requests, pooled; between them the noise floor (1)",
           whole, "N", 1),
    Option(("--find-max-rate",), "search the highest Poisson rate within the SLO, from "
           "--request-rate on", switch=True),
    Option(("--tolerance",), "of that rate (5%)", parse_share, "SHARE", 0.05),
)  # fmt: skip

_SERVER = (
    Option(("--engine",), "start it: llama.cpp (embedded), llama-server, vllm or sglang; its own "
           "arguments follow --", metavar="NAME", default=""),
    Option(("--env",), "environment of the engine that is started (repeatable)", metavar="K=V",
           again=True),
    Option(("--ready-timeout",), "how long its start may take", parse_duration_s, "TIME"),
    Option(("--model",), "name to ask a running server for (the first that it lists)",
           metavar="NAME", default=""),
    Option(("--route",), "which API requests use (completions)", default="completions",
           choices=("completions", "chat")),
    Option(("--api-key",), "sent as bearer token (the variable OPENAI_API_KEY)", metavar="KEY",
           default=""),
    Option(("--timeout",), "of one request (600s)", parse_duration_s, "TIME", 600.0),
    Option(("--workers",), "client processes (1)", whole, "N", 1),
)  # fmt: skip

_PMU = Option(("--pmu",), "counters over the steady window, where this host has any; else what the "
              "kernel accounts (auto)", default="auto", choices=("auto", "off"))  # fmt: skip

_RESULTS = (
    _PMU,
    Option(("--on",), "hardware whose catalog price to count with", metavar="HW", default=""),
    Option(("--price",), "dollars per hour of the server", price, "USD"),
    Option(("--out",), "run folder (runs/bench)", metavar="DIR", default="runs/bench"),
    Option(("--plot",), "write histograms and a timeline as SVG", metavar="FILE", default=""),
)  # fmt: skip

BENCH = (*_RATES, *_SIZES, *_JUDGING, *_SERVER, *_RESULTS)

TUNE = (
    Option(("--engine",), "llama.cpp (embedded) or vllm; its own arguments, the same in every "
           "candidate, follow -- (llama.cpp)", metavar="NAME", default="llama.cpp"),
    Option(("--device",), "cpu or gpu (cpu)", choices=("cpu", "gpu"), default="cpu"),
    Option(("--slo", "--goodput"), "what has to hold, e.g. 'ttft:p95<3s; tpot:p95<200ms; "
           "quality<4%'", metavar="SLO", default=""),
    *(option for option in _SIZES if option.name in (
        "isl", "osl", "isl_cv", "osl_cv", "prefix_hit_share", "turns", "think_time",
        "dataset_path", "ignore_eos", "seed")),
    Option(("--burstiness",), "gamma arrivals: 1 is Poisson, below 1 burstier", real, "B", 1.0),
    Option(("--request-rate", "--rate"), "where the search begins, requests per second (half of "
           "what the planner predicts)", real, "RPS", dest="rate"),
    Option(("--space",), "TOML file that narrows, widens or pins the space, or vLLM's sweep JSON",
           metavar="FILE", default=""),
    Option(("--checkpoint",), "another checkpoint of the model, such as w8a8=DIR (repeatable)",
           metavar="NAME=PATH", again=True),
    Option(("--max-candidates",), "configurations on the list (24)", whole, "N", 24),
    Option(("--budget",), "time, trials or money at which to finish with what is known, e.g. 30m, "
           "'50 trials', '$5' (repeatable)", metavar="B", again=True),
    Option(("--rungs",), "requests of the first looks (40,150,400); the first can only reject",
           whole, "N,N,N", (40, 150, 400), many=True),
    Option(("--certify-requests",), "of the winner and of the defaults, over all seeds (800)",
           whole, "N", 800),
    Option(("--certify-seeds",), "fresh schedules and servers for that (3)", whole, "N", 3),
    Option(("--finalists",), "that are measured again before one is picked (3; 0: none)", whole,
           "N", 3),
    Option(("--tolerance",), "of a limit (3%)", parse_share, "SHARE", 0.03),
    Option(("--quality-text",), "your own text for perplexity: plain, or JSON lines with text",
           metavar="FILE", default=""),
    Option(("--quality-words",), "of each of its documents, from its start", whole, "N"),
    Option(("--quality-task",), "questions with answers, JSON lines, asked beside it",
           metavar="FILE", default=""),
    *(option for option in _SERVER if option.name in ("route", "timeout", "workers")),
    Option(("--on",), "hardware whose catalog price to count with", metavar="HW", default=""),
    Option(("--price",), "dollars per hour of this host", price, "USD"),
    _PMU,
    Option(("--out",), "run folder (runs/tune)", metavar="DIR", default="runs/tune"),
    Option(("--dry-run",), "print the plan and its expected time; start nothing", switch=True),
    Option(("--print-space",), "print the space as a TOML file to start from", switch=True),
    Option(("--resume",), "go on with the campaign of this run folder", metavar="RUN", default=""),
)  # fmt: skip

GATE = (
    Option(("--baseline",), "hold it against this run folder, result file or prediction",
           metavar="PATH", default=""),
    Option(("--max-usd-per-mtok",), "what a million output tokens may cost", price, "USD"),
    Option(("--tolerance",), "slowdown that is no regression (5%)", parse_share, "SHARE", 0.05),
    Option(("--detect",), "slowdown that has to be excluded to pass (50%)", parse_share, "SHARE",
           0.5),
    Option(("--compare",), "latencies to hold against the baseline's; p50 to p99, too "
           "(ttft:geomean,tpot:geomean,ttft:p95,tpot:p95)", metavar="M:S,M:S",
           default=("ttft:geomean", "tpot:geomean", "ttft:p95", "tpot:p95"), many=True),
    Option(("--allow",), "differences from the baseline to bear: host, engine, workload, "
           "definitions, basis", metavar="WHAT,WHAT", default=(), many=True),
    Option(("--sure",), "how sure a prediction has to be of its SLO (90%)", parse_share, "SHARE",
           0.9),
    Option(("--trial",), "a load of several, from 1 or from the end (the recommended one, or the "
           "last with its repeats)", int, "N", 0),
    Option(("--benchmark-json",), "write figures for github-action-benchmark, smaller is better",
           metavar="FILE", default=""),
    Option(("--github",), "write step summary, outputs and annotations of a GitHub Action",
           switch=True),
    Option(("--annotations",), "where --github puts annotations (stderr)", metavar="FILE",
           default=""),
    *_RATES, *_SIZES,
    *(option for option in _JUDGING if option.name in ("slo", "full", "repeat")),
    *(option for option in _SERVER if option.name in (
        "model", "route", "api_key", "timeout", "workers")),
    *(option for option in _RESULTS if option.name in ("on", "price")),
    _PMU,
    Option(("--out",), "run folder of a server's measurement (runs/gate)", metavar="DIR",
           default="runs/gate"),
)  # fmt: skip

WATCH = (
    Option(("--slo", "--goodput"), "what has to hold (the SLO of --against, if it is a run folder)",
           metavar="SLO", default=""),
    Option(("--against",), "what it should hold: a run folder that certifies a rate, or a "
           "prediction", metavar="PATH", default=""),
    Option(("--interval",), "between looks (10s)", parse_duration_s, "TIME", 10.0),
    Option(("--window",), "that a look covers (5m)", parse_duration_s, "TIME", 300.0),
    Option(("--count",), "looks (0: until it is stopped)", whole, "N", 0),
    Option(("--listen",), "serve our own /metrics at PORT or HOST:PORT", metavar="PORT",
           default=""),
    *(option for option in _SERVER if option.name == "api_key"),
)  # fmt: skip

_OF_SERVER = ("--engine", "--env", "--ready-timeout", "--model", "--api-key")

QUALITY = (
    Option(("--against",), "the baseline: a URL, a model that is started too, or a kept score.json",
           metavar="BASE", default=""),
    Option(("--text",), "your own: paragraphs between blank lines, or JSON lines with text (28 "
           "paragraphs of Moby-Dick)", metavar="FILE", default=""),
    Option(("--words",), "of each document, from its start (40 of the shipped ones; all of yours)",
           whole, "N"),
    Option(("--task",), "questions, too: JSON lines with question and answer", metavar="FILE",
           default=""),
    Option(("--budget",), "how much worse word perplexity may be (4%)", parse_share, "SHARE", 0.04),
    Option(("--window",), "longest context that a token is scored in (512)", whole, "N", 512),
    Option(("--method",), "own, or lm_eval as a program: on wikitext, or on --text (own)",
           default="own", choices=("own", "lm_eval")),
    *(option for option in _SERVER if option.flags[0] in _OF_SERVER),
)  # fmt: skip

CALIBRATE = (
    Option(("--engine",), "serve the models with it: llama.cpp (embedded), llama-server, vllm or "
           "sglang; its own arguments follow --", metavar="NAME", default=""),
    Option(("--env",), "environment of the engine (repeatable)", metavar="K=V", again=True),
    Option(("--device",), "cpu or gpu (cpu)", choices=("cpu", "gpu"), default="cpu"),
    Option(("--budget",), "time for loads, of all models together (3m)", parse_duration_s, "TIME",
           180.0),
    Option(("--context",), "tokens of a request that a llama.cpp slot has room for (1024)", whole,
           "N", dest="context"),
    Option(("--threads",), "of the device alone (all cores); an engine has its own", whole, "N"),
    Option(("--python",), "one that has torch or numpy, for the device's own rates (the engine's, "
           "or this one)", metavar="FILE", default=""),
    Option(("--ready-timeout",), "how long the engine's start may take", parse_duration_s, "TIME"),
    Option(("--timeout",), "of one request (600s)", parse_duration_s, "TIME", 600.0),
    Option(("--out",), "run folder (runs/calibrate)", metavar="DIR", default="runs/calibrate"),
)  # fmt: skip

PMU = (
    Option(("--pid",), "processes, each with all below it, e.g. 4711,4712", whole, "PID,PID",
           many=True, default=()),
    Option(("--port",), "TCP port of a server on this host", whole, "PORT"),
    Option(("--cores",), "count CPUs, whoever runs there, e.g. 0-14", metavar="LIST", default=""),
    Option(("--seconds",), "how long (10)", real, "S", 10.0),
    Option(("--import",), "counters that perf stat -j or -x, topdown-tool, APerf or Performix "
           "wrote", metavar="FILE", default="", dest="file"),
    Option(("--core",), "whose the imported counters are, e.g. v2, n1, zen4, icelake",
           metavar="NAME", default=""),
    Option(("--performix",), "count with Arm Performix (apx) on this prepared target; "
           "user@host:22:KEY prepares one", metavar="TARGET", default=""),
    Option(("--on",), "an AWS instance type: what it would show, before it is rented",
           metavar="TYPE", default=""),
)  # fmt: skip

SELFTEST = (
    Option(("--streams",), "answers in flight at once (100)", whole, "N", 100),
    Option(("--ttft",), "true time to first token (50ms)", parse_duration_s, "TIME", 0.05),
    Option(("--itl",), "true time between tokens (10ms)", parse_duration_s, "TIME", 0.01),
    Option(("--osl", "--output-tokens", "--output-len"), "tokens of an answer (100)", whole, "N",
           100, dest="osl"),
    Option(("--duration",), "of the load (5s)", parse_duration_s, "TIME", 5.0),
    Option(("--workers",), "client processes (1)", whole, "N", 1),
    Option(("--limit",), "mean error of TTFT up to which the client is trusted (5ms)",
           parse_duration_s, "TIME", 0.005),
)  # fmt: skip

LISTEN = (
    Option(("--host",), "address to listen on (127.0.0.1); any other needs the token", metavar="IP",
           default="127.0.0.1"),
    Option(("--port",), "port (8765; 0: a free one)", whole, "N", 8765),
    Option(("--token",), "what whoever asks from elsewhere, or starts work, has to send (the "
           "variable NEOSERVE_TOKEN; made up where needed)", metavar="TOKEN", default=""),
    Option(("--allow-host",), "another name that requests may use for this host (repeatable)",
           metavar="NAME", again=True),
    Option(("--allow-tune",), "let those who have the token start and stop campaigns here",
           switch=True),
    Option(("--json",), "print the address and the token as a document, once it listens",
           switch=True),
)  # fmt: skip

MCP = (
    Option(("--results",), "folder of run folders, or one (runs; repeatable)", metavar="DIR",
           again=True),
    Option(("--http",), "streamable HTTP at /mcp instead of stdio", switch=True),
    *LISTEN,
)  # fmt: skip

ISA = (
    Option(("--precision",), "judge the kernels for it: exit code 0 only if they are there and "
           "hold what their names promise", choices=("w4a8", "w8a8", "bf16"), default=""),
    Option(("--pid",), "look into what a running process and its children have mapped", whole,
           "PID"),
    Option(("--kernels",), "only functions named as kernels of a precision; quick", switch=True),
)  # fmt: skip

DISPATCH = (
    Option(("--log",), "what an engine with ONEDNN_VERBOSE=1 has printed", metavar="FILE",
           default=""),
    Option(("--pid",), "of a running server: its libraries, and samples by perf where it works",
           whole, "PID", 0),
    Option(("--perf",), "what `perf report --stdio` has printed, instead of taking samples",
           metavar="FILE", default=""),
    Option(("--duration",), "of the samples (10s)", parse_duration_s, "TIME", 10.0),
    Option(("--ran",), "exit code 1 unless something that matches ran: words of an "
           "implementation, kernel or function, e.g. 'matmul.*acl' or '^kai_'", metavar="REGEX",
           default=""),
)  # fmt: skip
