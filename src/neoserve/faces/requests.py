"""From parsed command-line options to request documents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..errors import AskError
from ..schema.ask import PlanAsk, PredictAsk
from ..schema.engine import Deployment
from ..schema.workload import Arrival, Workload


def workload_of(args: argparse.Namespace) -> Workload:
    """An open load where a rate is given, else a closed one."""
    if args.rate is not None and args.concurrency is not None:
        raise AskError("--request-rate and --max-concurrency are two kinds of load; give one")
    if args.rate is None and args.arrival and not args.trace:
        raise AskError("--arrival shapes an open load and needs --request-rate")
    arrival = "closed" if args.rate is None else args.arrival or "poisson"
    if args.trace and args.concurrency is None:
        arrival = args.arrival or "trace"
    elif args.rate is not None and args.burstiness != 1.0:
        if args.arrival not in (None, "gamma"):
            raise AskError(f"--burstiness is of gamma arrivals, not of {args.arrival}; drop one")
        arrival = "gamma"
    return Workload(
        arrival=arrival,  # type: ignore[arg-type]
        rate_rps=args.rate if args.rate is not None else 0.0,
        burstiness=args.burstiness,
        concurrency=1 if args.concurrency is None else args.concurrency,
        prompt_tokens=args.isl,
        output_tokens=args.osl,
        prefix_hit_share=args.prefix_hit_share,
        seed=args.seed,
        prompt_tokens_cv=args.isl_cv,
        output_tokens_cv=args.osl_cv,
        trace=args.trace,
        turns=args.turns,
        think_time_s=args.think_time,
    )


def _engine(args: argparse.Namespace) -> Deployment:
    return Deployment(
        engine=args.engine,
        engine_version=args.engine_version,
        max_model_len=args.max_model_len,
        gpu_memory_utilization=args.gpu_memory_utilization,
        block_size=args.block_size,
        async_scheduling=args.async_scheduling,
        mamba_ssm_cache_dtype=args.mamba_ssm_cache_dtype,
        num_speculative_tokens=args.num_speculative_tokens,
        disable_hybrid_kv_cache_manager=args.disable_hybrid_kv_cache_manager,
    )


def predict_ask(args: argparse.Namespace) -> PredictAsk:
    """`neoserve predict`."""
    available = args.available_kv_bytes
    if args.available_kv_gib is not None:
        if available is not None:
            raise AskError("--available-kv-bytes and --available-kv-gib say the same; give one")
        available = args.available_kv_gib
    deployment = _engine(args).replace(
        tensor_parallel=args.tensor_parallel,
        pipeline_parallel=args.pipeline_parallel,
        expert_parallel=args.expert_parallel,
        decode_context_parallel=args.decode_context_parallel,
        weight_quant=args.weight_quant,
        kv_cache_dtype=args.kv_cache_dtype,
        enforce_eager=args.enforce_eager,
        enable_prefix_caching=args.enable_prefix_caching,
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        replicas=args.replicas,
    )
    return PredictAsk(
        model=args.model,
        on=args.on,
        deployment=deployment,
        workload=workload_of(args),
        slo=args.slo,
        usd_per_hour=args.price,
        utilization_share=args.utilization,
        output_tokens_per_month=args.output_tokens_per_month,
        available_kv_bytes=available,
        memory_bytes=args.memory,
        catalog=args.catalog,
        profile=args.profile,
        online=not args.offline,
        simulate=args.simulate,
        num_requests=args.num_prompts,
    )


def plan_ask(args: argparse.Namespace) -> PlanAsk:
    """`neoserve plan`."""
    return PlanAsk(
        model=args.model,
        on=tuple(name.strip() for name in args.on.split(",") if name.strip()),
        deployment=_engine(args),
        workload=workload_of(args),
        slo=args.slo,
        rate_rps=args.rate or 0.0,
        weight_quant=args.weight_quant,
        tensor_parallel=args.tensor_parallel,
        pipeline_parallel=args.pipeline_parallel,
        expert_parallel=args.expert_parallel,
        kv_cache_dtype=args.kv_cache_dtype,
        enforce_eager=args.enforce_eager,
        enable_prefix_caching=args.enable_prefix_caching,
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        usd_per_hour=args.price,
        utilization_share=args.utilization,
        memory_bytes=args.memory,
        catalog=args.catalog,
        profile=args.profile,
        online=not args.offline,
        keep=args.keep,
        simulate=args.simulate,
        num_requests=args.num_prompts,
    )


def bench_workload(args: argparse.Namespace) -> Workload:
    """`neoserve bench`: open where a rate or a trace is given, else closed. Raises AskError."""
    is_open = args.rate is not None or bool(args.trace)
    if is_open and args.concurrency is not None:
        raise AskError("--request-rate and --max-concurrency are two kinds of load; give one")
    shapes = {"--arrival": args.arrival, "--burstiness": args.burstiness,
              "--ramp-up-start-rps": args.ramp_up_start_rps}  # fmt: skip
    shape = next((flag for flag, value in shapes.items() if value is not None), None)
    if shape and args.rate is None:
        raise AskError(f"{shape} shapes an open load and needs --request-rate")
    if args.burstiness is not None and args.arrival not in (None, "gamma"):
        raise AskError(f"--burstiness is of gamma arrivals, not of {args.arrival}; drop one")
    if args.rate is not None and not 0 < args.rate <= 1e5:
        raise AskError(f"--request-rate is {args.rate:g}; expected requests per second up to 10^5")
    return Workload(
        arrival=_arrival(args, is_open),
        rate_rps=args.rate or 0.0,
        burstiness=1.0 if args.burstiness is None else args.burstiness,
        concurrency=1 if args.concurrency is None else args.concurrency,
        prompt_tokens=args.isl,
        output_tokens=args.osl,
        prefix_hit_share=args.prefix_hit_share,
        seed=args.seed,
        burst_ratio=args.burst_ratio,
        burst_share=args.burst_share,
        burst_length_s=args.burst_length,
        ramp_start_rps=args.ramp_up_start_rps or 0.0,
        prompt_tokens_cv=args.isl_cv,
        output_tokens_cv=args.osl_cv,
        trace=args.trace,
        dataset=args.dataset_path,
        turns=args.turns,
        think_time_s=args.think_time,
        ignore_eos=args.ignore_eos,
    )


def _arrival(args: argparse.Namespace, is_open: bool) -> Arrival:
    if not is_open:
        return "closed"
    if args.arrival:
        return args.arrival  # type: ignore[no-any-return]
    if args.trace:
        return "trace"
    if args.ramp_up_start_rps is not None:
        return "ramp"
    return "poisson" if args.burstiness in (None, 1.0) else "gamma"


def cost_asks(args: argparse.Namespace) -> list[PredictAsk]:
    """`neoserve cost`: the same configuration on each machine."""
    machines = [name.strip() for name in args.on.split(",") if name.strip()]
    if not machines:
        raise AskError("no hardware was given; name some with --on, for example L40S,c8g.4xlarge")
    return [predict_ask(argparse.Namespace(**{**vars(args), "on": name})) for name in machines]


def compare_ask(args: argparse.Namespace) -> PlanAsk:
    """`neoserve compare`: a plan that keeps the best of each machine."""
    if not args.model or not args.on:
        raise AskError("name a model and, with --on, machines; or what to compare, with --beside")
    return plan_ask(argparse.Namespace(**{**vars(args), "keep": 1}))


def beside_asks(args: argparse.Namespace) -> dict[str, PredictAsk]:
    """`neoserve compare --beside`: a prediction for each machine, weight scheme and size.

    An open Poisson load unless a concurrency is given: its rate says nothing of the highest one.
    """
    if bool(args.model) != bool(args.on):
        raise AskError("a prediction takes both a model and, with --on, machines")
    if not args.model:
        return {}
    if args.concurrency is not None and args.slo:
        raise AskError("an SLO bounds the rate of an open load; with --max-concurrency, whose "
                       "output is compared, leave --slo out")  # fmt: skip
    one = {
        name: _only(name, values) for name, values in
        (("pipeline_parallel", args.pipeline_parallel), ("expert_parallel", args.expert_parallel),
         ("kv_cache_dtype", args.kv_cache_dtype or ("auto",)),
         ("enforce_eager", args.enforce_eager),
         ("enable_prefix_caching", args.enable_prefix_caching or (True,)),
         ("max_num_seqs", args.max_num_seqs or (None,)),
         ("max_num_batched_tokens", args.max_num_batched_tokens or (None,)))
    }  # fmt: skip
    rate = 1.0 if args.rate is None and args.concurrency is None and not args.trace else args.rate
    machines = [name.strip() for name in args.on.split(",") if name.strip()]
    found: dict[str, PredictAsk] = {}
    for on in machines:
        for scheme in args.weight_quant or ("checkpoint",):
            for ranks in args.tensor_parallel or (1,):
                words = {**vars(args), **one, "on": on, "weight_quant": scheme, "rate": rate,
                         "tensor_parallel": ranks, "decode_context_parallel": 1, "replicas": 1,
                         "available_kv_bytes": None, "available_kv_gib": None,
                         "output_tokens_per_month": None}  # fmt: skip
                parts = (on, scheme if args.weight_quant else "",
                         f"TP{ranks}" if args.tensor_parallel else "")  # fmt: skip
                name = " ".join(filter(None, parts))
                found[name] = predict_ask(argparse.Namespace(**words))
    return found


def _only(name: str, values: Sequence[object]) -> object:
    if len(values) != 1:
        raise AskError(f"--{name.replace('_', '-')} has {len(values)} values; beside other figures "
                       "it takes one")  # fmt: skip
    return values[0]
