"""What the planner says of a candidate: its memory, its unloaded latency, its highest rate."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from ..catalog.coefficients import calibrated, coefficients_for, unhindered
from ..catalog.engines import profile_or_newest
from ..catalog.models import find_model
from ..catalog.quantization import weight_scheme
from ..errors import AskError
from ..predict.memo import Memo
from ..predict.pools import GGML_BYTES, llama_cpp_bytes
from ..predict.predictor import Ask, Outcome, outcome, predict
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec, Machine
from ..schema.model import ModelSpec
from ..schema.prediction import Prediction
from ..schema.profile import DeviceProfile
from ..schema.quantization import quantize
from ..schema.space import Candidate, Space
from ..schema.workload import Slo, Workload
from ..units import GIB, show_bytes, show_duration
from .host import HostFacts
from .space import engine_threads, model_of, slots_of, version_of

# Knobs that the planner sees a difference in; the others do not change its answer.
MODELLED = {
    "llama.cpp": ("threads", "parallel", "ubatch", "weights"),
    "vllm": ("bind", "reserved-cpus", "kv-space", "batched-tokens", "max-seqs", "eager", "weights",
             "tensor-parallel", "quantization", "kv-dtype", "memory-share"),
}  # fmt: skip
# Times an SLO's limit that the data sheet alone would take: a bandwidth measured on a busy host, or
# a peak that counts no int8 units, is off by less.
HOPELESS = 3.0
_NOT_MODELLED = ("data-parallel",)  # a rank a NUMA node


class _Key(NamedTuple):
    """What results of one planner may be shared under: hardware and weights."""

    threads: int
    model: str
    quantization: str


class Planner:
    """One space on one host under one workload. Asks of candidates of one kind share results."""

    def __init__(
        self,
        space: Space,
        facts: HostFacts,
        workload: Workload,
        slo: Slo | None = None,
        *,
        profile: DeviceProfile | None = None,
        online: bool = False,
    ) -> None:
        """Raises AskError where the host or the model is not one that the planner knows."""
        if facts.machine is None:
            raise AskError("this host's device is not in the catalog, so nothing can be predicted")
        self.space, self.facts, self.workload, self.slo = space, facts, workload, slo
        self.machine: Machine = facts.machine
        self._online = online
        self._models: dict[str, ModelSpec] = {}
        self._memos: dict[_Key, Memo] = {}
        version = ".".join(map(str, version_of(space.version)))
        self._rules = profile_or_newest(space.engine, "" if space.engine == "llama.cpp" else
                                        version, space.device)  # fmt: skip
        known = coefficients_for(self.machine.hardware, space.engine, version)
        self.coefficients = calibrated(known, profile) if profile else known
        self.model(Candidate({}))

    def model(self, candidate: Candidate) -> ModelSpec:
        """Of the checkpoint that a candidate chooses. Raises AskError."""
        spec, scheme = self.stored(candidate), candidate.knobs.get("quantization")
        return quantize(spec, weight_scheme(scheme)) if scheme else spec

    def stored(self, candidate: Candidate) -> ModelSpec:
        """The same, before it is quantized while it is loaded. Raises AskError."""
        name = model_of(self.space, candidate)
        if name not in self._models:
            self._models[name] = find_model(name, self._online)
        return self._models[name]

    def predicted_rps(self, candidate: Candidate) -> float | None:
        """Highest rate within the SLO by its means; None where the planner cannot say."""
        answer = self.prediction(candidate)
        return answer.throughput.max_rate_rps if answer and answer.throughput else None

    def shares_cores(self, candidate: Candidate) -> bool:
        """Whether its threads leave the client of this host no core; what that costs is not
        predicted."""
        if self.space.device == "gpu":
            return False
        asked = engine_threads(self.space, candidate)
        unbound = asked is None and candidate.knobs.get("bind") == "nobind"
        return unbound or (asked or 0) >= self.facts.num_cores

    def saturation_rps(self, candidate: Candidate) -> float | None:
        """Highest rate that it can serve at all, whatever the SLO."""
        ask = self._ask(candidate, self.workload)
        if ask is None:
            return None
        served = predict(replace(ask, slo=None), self._memo(candidate, None)).throughput
        return served.max_rate_rps if served else None

    def prediction(
        self, candidate: Candidate, workload: Workload | None = None
    ) -> Prediction | None:
        """The planner's answer under a workload, else under its own; None where it has none."""
        ask = self._ask(candidate, workload or self.workload)
        if ask is None:
            return None
        answer = predict(ask, self._memo(candidate, workload))
        return answer if answer.starts else None

    def shortage(self, candidate: Candidate) -> str:
        """Why it does not fit into memory; "" if it does, or where the planner cannot say."""
        ask = self._ask(candidate, self.workload)
        if ask is None:
            return ""
        found = outcome(ask, self._memo(candidate, None))
        if self.space.engine == "llama.cpp":
            return self._llama_cpp_shortage(candidate, ask.model, found)
        return found.refusal or self._kv_space_shortage(candidate, found)

    def hopeless(self, candidate: Candidate) -> str:
        """Which limit of the SLO is far beyond the roofline of an unloaded engine; "" if none.

        Weights over bandwidth and products over peak, nothing else: what no setting can beat.
        """
        alone = self.workload.replace(arrival="closed", concurrency=1, rate_rps=0.0)
        ask = self._ask(candidate, alone)
        if ask is None or self.slo is None:
            return ""
        latency = predict(replace(ask, coefficients=unhindered(ask.coefficients))).latency
        if latency is None:
            return ""
        seconds = {"ttft": latency.ttft_s.mean, "tpot": latency.tpot_s.mean,
                   "e2e": latency.e2e_s.mean}  # fmt: skip
        for target in self.slo.targets:
            value = seconds.get(target.metric)
            if value is not None and value >= HOPELESS * target.limit:
                return (
                    f"by bandwidth and peak alone {target.metric.upper()} would be "
                    f"{show_duration(value)}, {value / target.limit:.1f} times the "
                    f"{show_duration(target.limit)} of the SLO"
                )
        return ""

    def _memo(self, candidate: Candidate, workload: Workload | None) -> Memo:
        if workload is not None and workload != self.workload:
            return Memo()
        key = _Key(self._threads(candidate), model_of(self.space, candidate),
                   candidate.knobs.get("quantization", ""))  # fmt: skip
        return self._memos.setdefault(key, Memo())

    def _ask(self, candidate: Candidate, workload: Workload) -> Ask | None:
        if any(name in candidate.knobs for name in _NOT_MODELLED):
            return None
        try:
            model = self.model(candidate)
        except AskError:  # a checkpoint that only the engine can read
            return None
        return Ask(
            model=model,
            machine=self.machine.replace(hardware=self._hardware(candidate)),
            deployment=self.deployment(candidate),
            workload=workload,
            profile=self._rules,
            coefficients=self.coefficients,
            slo=self.slo,
            available_kv_bytes=self._kv_bytes(candidate),
        )

    def deployment(self, candidate: Candidate) -> Deployment:
        """The candidate in the planner's words."""
        chosen = candidate.knobs
        if self.space.engine == "llama.cpp":
            return Deployment(
                engine="llama.cpp",
                max_num_seqs=slots_of(self.space, candidate),
                max_model_len=self.space.context_tokens,
                max_num_batched_tokens=_number(chosen, "ubatch"),
                enable_prefix_caching=False,
            )
        share = chosen.get("memory-share")
        return Deployment(
            engine="vllm",
            tensor_parallel=_number(chosen, "tensor-parallel") or 1,
            kv_cache_dtype=chosen.get("kv-dtype", "auto"),
            enforce_eager=chosen.get("eager") == "on",
            enable_prefix_caching=chosen.get("prefix-caching") != "off",
            max_model_len=int(self.space.pins.get("--max-model-len", 0)) or None,
            max_num_seqs=_number(chosen, "max-seqs"),
            max_num_batched_tokens=_number(chosen, "batched-tokens"),
            gpu_memory_utilization=float(share) if share else None,
            block_size=_number(chosen, "block-size"),
        )

    def _threads(self, candidate: Candidate) -> int:
        """Cores that compute, also where the client shares one: it takes a few percent of it."""
        cores = self.facts.num_cores
        asked = engine_threads(self.space, candidate)
        if asked is None:
            asked = cores - (_number(candidate.knobs, "reserved-cpus") or 1)
        return max(1, min(asked, cores))

    def _hardware(self, candidate: Candidate) -> HardwareSpec:
        hardware = self.machine.hardware
        if self.space.device == "gpu":
            return hardware
        threads = self._threads(candidate)
        share = threads / max(1, hardware.cores)
        peaks = {k: v * share for k, v in hardware.peak_flops_per_s.items()}
        return hardware.replace(cores=threads, peak_flops_per_s=peaks)

    def _kv_bytes(self, candidate: Candidate) -> int | None:
        gib = _number(candidate.knobs, "kv-space")
        return gib * GIB if gib else None

    def _llama_cpp_shortage(
        self, candidate: Candidate, model: ModelSpec, found: Outcome
    ) -> str:
        """Weights, the cache in its own number formats, and a batch's activations."""
        if found.fit is None:
            return found.refusal
        chosen, slots = candidate.knobs, slots_of(self.space, candidate)
        type_k, type_v = chosen.get("cache-type-k", "f16"), chosen.get("cache-type-v", "f16")
        if not {type_k, type_v} <= GGML_BYTES.keys():
            return ""
        need = llama_cpp_bytes(
            model, slots * self.space.context_tokens, type_k, type_v,
            micro_batch_tokens=_number(chosen, "ubatch") or 512, slots=slots,
        )  # fmt: skip
        free = found.fit.memories[0].available_kv_bytes
        if need <= free:
            return ""
        return (
            f"{slots} slots of {self.space.context_tokens:,} tokens need {show_bytes(need)} of KV "
            f"cache, and beside the weights {show_bytes(max(0, free))} are free"
        )

    def _kv_space_shortage(self, candidate: Candidate, found: Outcome) -> str:
        """A size of one's own has to fit beside weights and process."""
        asked = self._kv_bytes(candidate)
        if asked is None or found.fit is None:
            return ""
        memory = found.fit.memories[0]
        other = memory.weights_bytes + memory.activation_bytes + memory.non_torch_bytes
        if asked + other <= memory.total_bytes:
            return ""
        return (
            f"{show_bytes(asked)} of KV cache and {show_bytes(other)} of weights and process are "
            f"more than the {show_bytes(memory.total_bytes)} of this host"
        )


def _number(chosen: dict[str, str], name: str) -> int | None:
    text = chosen.get(name, "")
    return int(text) if text.isdigit() else None
