"""Coefficients: what no data sheet says about how fast an engine gets on a kind of device."""

from __future__ import annotations

from .base import Document


class Coefficients(Document, frozen=True):
    """Resolved for one device class and one engine family.

    Shares are of the data sheet's bandwidth or dense peak. Every value is fitted; what it was
    fitted on is recorded beside it in catalog/data/coefficients.json.
    """

    device_class: str
    engine: str
    memory_share: float  # streaming weights
    packed_share: float  # factor on it where weights are stored in fewer than 16 bits
    kv_share: float  # reading keys and values while decoding
    kv_packed_share: float  # factor on it where they are stored in fewer than 16 bits
    matrix_share: float  # large matrix products
    matrix_half_tokens: float  # rows that every product pays on top: tiles, waves, pipelines
    dtype_share: dict[str, float]  # factor on matrix_share by multiplying dtype
    block_share: float  # factor on matrix_share for fp8 with scales by blocks of 128 x 128
    unpack_share: float  # factor on matrix_share where weights are unpacked to 16 bits first
    core_drag: float  # of a CPU: n cores multiply as fast as n / (1 + drag n) alone
    attention_share: float  # score and value products over a prompt
    overlap_power: float  # 1: reading and multiplying add up; large: they hide each other
    layer_s: float  # per decoder layer: gaps between its kernels
    expert_share: float  # factor on matrix_share: many small products of routed experts
    expert_dtype_share: dict[str, float]  # factor on both by `Route.kind`, in place of dtype_share
    expert_memory_share: float  # factor on memory_share: weights of the experts touched
    expert_half_tokens: float  # as matrix_half_tokens, for each expert touched
    state_share: float  # of the bandwidth: recurrent states
    scan_share: float  # of the peak: chunked scans of recurrent layers over a prompt
    state_layer_s: float  # on top of layer_s, per recurrent layer
    expert_layer_s: float  # on top, per layer with routed experts
    launch_s: float  # host time per layer of a step that is not replayed from a graph
    step_s: float  # host time per step: scheduling, input preparation
    request_step_s: float  # per step and running request: sampling, detokenizing, streaming
    admission_s: float  # once per request, before its first step
    request_serial_s: float  # of the front end, one request after the other: felt by a burst
    prompt_token_s: float  # once per prompt token: tokenizing, hashing blocks
    convoy_odds: float  # that a closed loop's requests start together, where prompts are short
    collective_s: float  # one all-reduce of nothing between two devices
    collective_share: float  # of the link's bandwidth
    expert_imbalance: float  # busiest expert-parallel rank over the mean
    era: str = ""  # of the engine: the releases that they are of
    calibration: str = ""  # the profile of a device that they were corrected by
    # weight scheme -> coefficient -> factor: kernels of one format that a profile has seen
    formats: dict[str, dict[str, float]] = {}

    def for_format(self, scheme: str) -> Coefficients:
        """As they are for a model whose weights are stored like this."""
        factors = self.formats.get(scheme)
        if not factors:
            return self
        return self.replace(**{name: getattr(self, name) * f for name, f in factors.items()})
