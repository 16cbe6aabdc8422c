"""Seconds of one engine iteration, from a model, a device, a deployment and coefficients.

A step is the sum over operation groups of a roofline: bytes over bandwidth against FLOPs over
peak, joined by a p-norm, since kernels hide the smaller of the two only in part. Collectives,
kernel gaps and host work come on top. Building does all per-layer sums once; a step is then a
dozen additions whatever the number of layers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from ..schema.prediction import Part
from .attention import attentions, states
from .collectives import collectives, data_ranks
from .formats import Path, resolve_path
from .shape import ROLES, Shape, shape_of

__all__ = ["Shape", "StepModel", "overlap_s", "shape_of", "touched_experts"]

MOST_KNOWN = 10_000  # numbers of tokens whose part of a step is remembered


class Matrix(NamedTuple):
    """Linear layers of one role on one rank."""

    name: str
    read_s: float
    token_s: float


class Experts(NamedTuple):
    """Routed experts of all layers that have the same shape."""

    num: int
    per_token: int
    read_s: float  # one expert of every such layer
    token_s: float  # one token through one expert of every such layer


def overlap_s(a: float, b: float, power: float) -> float:
    """Time of two resources that hide each other in part: max for power → ∞, sum for 1."""
    if a < b:
        a, b = b, a
    if b <= 0.0:
        return a
    return a * math.pow(1.0 + math.pow(b / a, power), 1.0 / power)


def touched_experts(num: int, per_token: int, tokens: float) -> float:
    """Distinct experts that `tokens` tokens reach when routing is even: E(1-(1-k/E)^T)."""
    return num * (1.0 - math.pow(1.0 - per_token / num, tokens))


class StepModel:
    """The step time of one replica as a pure function of its batch."""

    __slots__ = (
        "_activation_s", "_attentions", "_comm_latency_s", "_comm_token_s", "_data_ranks",
        "_eager", "_expert_half", "_experts", "_fixed_s", "_half", "_head", "_known_rows_s",
        "_launch_s", "_matrices", "_pipeline", "_power", "_request_s", "_scan_token_s", "_state_s",
        "_step_s", "_token_s", "notes",
    )  # fmt: skip

    def __init__(
        self,
        model: ModelSpec,
        hardware: HardwareSpec,
        deployment: Deployment,
        coefficients: Coefficients,
        shape: Shape | None = None,
    ) -> None:
        """`shape` is `shape_of(model)`: pass it when many deployments of a model are built."""
        shape = shape or shape_of(model)
        c = coefficients.for_format(model.quantization.scheme)
        tp = deployment.tensor_parallel
        self._pipeline, self._data_ranks = deployment.pipeline_parallel, data_ranks(deployment)
        self._half, self._expert_half = c.matrix_half_tokens, c.expert_half_tokens
        self._power = c.overlap_power
        self._eager = deployment.enforce_eager
        paths = {
            role: resolve_path(model, role, hardware, c) for role in ROLES if shape.params[role]
        }
        self.notes = tuple(dict.fromkeys(path.note for path in paths.values() if path.note))
        linear = {
            role: Matrix(
                role,
                shape.params[role] * path.bits / 8 / tp / path.bytes_per_s,
                2.0 * shape.params[role] / tp / path.flops_per_s,
            )
            for role, path in paths.items()
            if role != "experts"
        }
        self._head = linear.pop("lm_head", Matrix("lm_head", 0.0, 0.0))
        self._matrices = tuple(linear.values())
        self._experts = _experts(shape, paths.get("experts"), deployment, c)
        self._attentions = attentions(shape, model, hardware, deployment, c)
        self._state_s, self._scan_token_s = states(shape, model, hardware, tp, c)
        self._activation_s = activation_bytes(shape, model.hidden_size, tp) / (
            hardware.bandwidth_bytes_per_s * c.memory_share
        )
        self._comm_latency_s, self._comm_token_s = collectives(
            shape, model.hidden_size, hardware, deployment, c
        )
        self._fixed_s = (
            shape.num_blocks * c.layer_s
            + shape.moe_layers * c.expert_layer_s
            + shape.state_layers * c.state_layer_s
        )
        self._launch_s = shape.num_blocks * c.launch_s
        self._token_s = self._activation_s + self._comm_token_s
        self._step_s, self._request_s = c.step_s, c.request_step_s
        self._known_rows_s: dict[tuple[float, float], float] = {}

    @property
    def bends(self) -> tuple[float, ...]:
        """Contexts at which a window is filled: between them a step's time is smooth."""
        full = {span * stride for span, stride, *_ in self._attentions if span < math.inf}
        return tuple(sorted(full))

    def step_s(
        self,
        prefill_tokens: float,
        prefill_context_tokens: float,
        num_decode: float,
        decode_context_tokens: float,
    ) -> float:
        """Seconds of one iteration.

        `prefill_tokens`: prompt tokens in this step, of all requests. `prefill_context_tokens`:
        how many tokens each of them sees, on average; half its length for a whole prompt,
        (a+b)/2 for the chunk from a to b. `num_decode`: requests that generate one token.
        `decode_context_tokens`: their mean context.
        """
        # `_terms` summed without building it: a plan asks a million times.
        decodes = num_decode if self._pipeline == 1 else self._stage_decodes(num_decode)
        key = prefill_tokens, decodes
        device_s = self._known_rows_s.get(key)
        if device_s is None:
            device_s = self._rows_s(prefill_tokens, decodes)
            if len(self._known_rows_s) < MOST_KNOWN:
                self._known_rows_s[key] = device_s
        power, share = self._power, self._data_ranks
        prompt, decodes = prefill_tokens / share, decodes / share
        memory_s, compute_s = self._attention_s(
            prompt, prefill_context_tokens, decodes, decode_context_tokens
        )
        device_s += overlap_s(memory_s, compute_s, power)
        if self._state_s:
            device_s += overlap_s(decodes * self._state_s, prompt * self._scan_token_s, power)
        if self._eager or prompt > 0.0:
            device_s = overlap_s(device_s, self._launch_s, 4.0)
        return device_s + self._step_s + self._request_s * num_decode

    def parts(
        self,
        prefill_tokens: float,
        prefill_context_tokens: float,
        num_decode: float,
        decode_context_tokens: float,
    ) -> tuple[Part, ...]:
        """The same step, term by term; the seconds add up to `step_s`."""
        terms = self._terms(
            prefill_tokens, prefill_context_tokens, num_decode, decode_context_tokens
        )
        parts = [Part(name=n, seconds=overlap_s(m, c, self._power)) for n, m, c in terms]
        parts.append(Part(name="collectives", seconds=self._comm_s(prefill_tokens, num_decode)))
        parts.append(Part(name="kernel gaps", seconds=self._fixed_s))
        device_s = math.fsum(part.seconds for part in parts)
        if self._eager or prefill_tokens > 0:
            exposed_s = overlap_s(device_s, self._launch_s, 4.0) - device_s
            parts.append(Part(name="kernel launches", seconds=exposed_s))
        host_s = self._step_s + self._request_s * num_decode
        parts.append(Part(name="scheduler", seconds=host_s))
        return tuple(part for part in parts if part.seconds > 0)

    def causes(
        self,
        prefill_tokens: float,
        prefill_context_tokens: float,
        num_decode: float,
        decode_context_tokens: float,
    ) -> dict[str, float]:
        """Seconds by what would have to be faster: memory, compute, kv, comm, overhead."""
        seconds = dict.fromkeys(("memory", "compute", "kv", "comm", "overhead"), 0.0)
        for name, memory_s, compute_s in self._terms(
            prefill_tokens, prefill_context_tokens, num_decode, decode_context_tokens
        ):
            cause = "compute" if compute_s > memory_s else "memory"
            if cause == "memory" and name in ("attention over context", "states"):
                cause = "kv"
            seconds[cause] += overlap_s(memory_s, compute_s, self._power)
        seconds["comm"] = self._comm_s(prefill_tokens, num_decode)
        whole_s = self.step_s(
            prefill_tokens, prefill_context_tokens, num_decode, decode_context_tokens
        )
        seconds["overhead"] = max(0.0, whole_s - math.fsum(seconds.values()))
        return seconds

    def _terms(
        self, prompt: float, prompt_context: float, decodes: float, context: float
    ) -> list[tuple[str, float, float]]:
        """(name, seconds of reading, seconds of multiplying) of each operation group."""
        decodes = self._stage_decodes(decodes)
        all_tokens = prompt + decodes
        share = self._data_ranks
        tokens, prompt, decodes = all_tokens / share, prompt / share, decodes / share
        rows = tokens + self._half
        terms = [(m.name, m.read_s, m.token_s * rows) for m in self._matrices]
        for e in self._experts:
            touched = touched_experts(e.num, e.per_token, all_tokens)
            products = all_tokens * e.per_token + touched * self._expert_half
            terms.append(("experts", touched * e.read_s, products * e.token_s))
        head_rows = decodes + (1.0 if prompt > 0 else 0.0) + self._half
        terms.append(("lm_head", self._head.read_s, self._head.token_s * head_rows))
        memory_s, compute_s = self._attention_s(prompt, prompt_context, decodes, context)
        terms.append(("attention over context", memory_s, compute_s))
        if self._state_s:
            terms.append(("states", decodes * self._state_s, prompt * self._scan_token_s))
        terms.append(("activations", tokens * self._activation_s, 0.0))
        return terms

    def _rows_s(self, prefill_tokens: float, decodes: float) -> float:
        """What the number of tokens decides, whatever they see: all but attention and states. A
        simulation asks for few numbers again and again."""
        power, half, share = self._power, self._half, self._data_ranks
        all_tokens = prefill_tokens + decodes
        tokens, decodes = all_tokens / share, decodes / share
        rows = tokens + half
        device_s = self._comm_latency_s + self._fixed_s + tokens * self._token_s
        for _, read_s, token_s in self._matrices:
            device_s += overlap_s(read_s, token_s * rows, power)
        for num, per_token, read_s, token_s in self._experts:
            touched = touched_experts(num, per_token, all_tokens)
            products = all_tokens * per_token + touched * self._expert_half
            device_s += overlap_s(touched * read_s, products * token_s, power)
        head_rows = decodes + (1.0 if prefill_tokens > 0.0 else 0.0) + half
        return device_s + overlap_s(self._head[1], self._head[2] * head_rows, power)

    def _attention_s(
        self, prompt: float, prompt_context: float, decodes: float, context: float
    ) -> tuple[float, float]:
        memory_s = compute_s = 0.0
        for span, stride, read_s, decode_s, prefill_s in self._attentions:
            seen = context / stride
            seen = decodes * (seen if seen < span else span)
            memory_s += seen * read_s
            compute_s += seen * decode_s
            if prompt:
                seen = prompt_context / stride
                compute_s += prompt * (seen if seen < span else span) * prefill_s
        return memory_s, compute_s

    def _stage_decodes(self, decodes: float) -> float:
        # The batch is cut into one part for each stage; a token passes all stages.
        if self._pipeline == 1:
            return decodes
        return max(min(1.0, decodes), decodes / self._pipeline)

    def _comm_s(self, prompt: float, decodes: float) -> float:
        tokens = (prompt + self._stage_decodes(decodes)) / self._data_ranks
        return self._comm_latency_s + tokens * self._comm_token_s


def _experts(
    shape: Shape, path: Path | None, deployment: Deployment, coefficients: Coefficients
) -> tuple[Experts, ...]:
    if path is None:
        return ()
    ranks = deployment.tensor_parallel * data_ranks(deployment)
    read = path.bytes_per_s * coefficients.expert_memory_share
    busiest = coefficients.expert_imbalance if deployment.expert_parallel and ranks > 1 else 1.0
    return tuple(
        Experts(
            num=num,
            per_token=per_token,
            read_s=count * params * path.bits / 8 / ranks * busiest / read,
            token_s=count * 2.0 * params / ranks * busiest / path.flops_per_s,
        )
        for count, num, per_token, params in shape.experts
    )


def activation_bytes(shape: Shape, hidden: int, tp: int) -> float:
    """Bytes that one token's activations move: residual and norms in full, products cut by tp.

    A product of P weights over width h has P/h outputs, written once and read once.
    """
    return 2.0 * (8.0 * shape.num_blocks * hidden + 2.0 * shape.active_params / hidden / tp)
