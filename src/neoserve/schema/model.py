"""ModelSpec: what a config.json says, in the terms that memory and time depend on."""

from __future__ import annotations

from typing import Literal

from .base import Document

MixerKind = Literal[
    "full",          # keys and values of every token
    "sliding",       # of the last `window_tokens` tokens
    "chunked",       # of the tokens in the same `window_tokens`-long chunk
    "mla",           # one latent vector a token, replicated over tensor-parallel ranks
    "mla-sparse",    # as mla, plus an indexer's key a token; attends to `topk_tokens`
    "mla-compressed",  # DeepSeek-V4: a window of latents plus latents of `compress_ratio` tokens
    "mamba1", "mamba2", "gated-delta", "kda", "linear", "short-conv",  # a state a request
]  # fmt: skip


class State(Document, frozen=True):
    """What a recurrent mixer keeps per request: a convolution tail and a recurrent matrix.

    Elements on one of `tp` ranks: conv (kernel - 1 + draft) * channels / tp, with
    channels = conv_dim + groups * group_dim, and rows / tp * row_elements.
    """

    conv_kernel: int = 0
    conv_dim: int = 0
    groups: int = 0  # Mamba-2 B/C groups: grown to tp where tp does not divide them
    group_dim: int = 0
    rows: int = 0  # heads, or inner channels for Mamba-1
    row_elements: int = 0
    recurrent_dtype: str = "auto"  # what the checkpoint asks for; auto follows conv


class Mixer(Document, frozen=True):
    """One token mixer of a layer. A layer may hold several (Falcon-H1, Zamba2)."""

    kind: MixerKind
    num_heads: int = 0
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0  # equals head_dim unless values have another width
    window_tokens: int = 0
    latent_dim: int = 0  # MLA: kv_lora_rank
    rope_dim: int = 0  # MLA: qk_rope_head_dim
    index_dim: int = 0  # sparse MLA: width of the indexer's key
    topk_tokens: int = 0
    compress_ratio: int = 0
    caches: bool = True  # False: reads the cache of an earlier layer (Gemma-3n, Gemma-4)
    state: State | None = None
    params: int = 0  # weights of its linear projections
    other_params: int = 0  # norms, convolutions, biases: never quantized


class Ffn(Document, frozen=True):
    """The feed-forward half of a layer: dense weights, experts, or both."""

    dense_params: int = 0  # read for every token
    shared_params: int = 0  # shared experts, read for every token
    num_experts: int = 0
    experts_per_token: int = 0
    expert_params: int = 0  # of one routed expert
    expert_intermediate: int = 0
    router_params: int = 0
    other_params: int = 0

    @property
    def total_params(self) -> int:
        """All weights, routed experts included."""
        return self.fixed_params + self.num_experts * self.expert_params

    @property
    def fixed_params(self) -> int:
        """Weights that every token reads."""
        return self.dense_params + self.shared_params + self.router_params + self.other_params

    @property
    def active_params(self) -> int:
        """Weights that one token reads."""
        return self.fixed_params + self.experts_per_token * self.expert_params


class Layer(Document, frozen=True):
    """One decoder layer."""

    mixers: tuple[Mixer, ...]
    ffn: Ffn = Ffn()
    norm_params: int = 0


class Quantization(Document, frozen=True):
    """How a checkpoint's weights are stored and computed with."""

    scheme: str = "none"  # a name of `WEIGHT_SCHEMES`, or "none"
    method: str = ""  # what quantization_config says: awq, gptq, compressed-tensors, fp8 ...
    bits: dict[str, float] = {}  # stored bits a weight, scales included, by role
    # roles: attention, mlp, experts, shared_experts, lm_head, embedding
    compute: dict[str, str] = {}  # role -> dtype that multiplies: bf16, fp8, int8, fp4


class ModelSpec(Document, frozen=True):
    """A text-generation model."""

    id: str
    architecture: str
    family: str  # dense, moe, mla-moe, mla-dsa, swa-mix, gdn-hybrid ...
    hidden_size: int
    vocab_size: int
    num_heads: int  # of the first attention layer: tensor parallelism has to divide it
    max_position_tokens: int
    dtype: str  # bfloat16, float16, float32
    layers: tuple[Layer, ...]
    draft_layers: tuple[Layer, ...] = ()  # the checkpoint's own multi-token-prediction head
    embedding_params: int = 0
    lm_head_params: int = 0  # 0 when tied to the embedding
    final_params: int = 0  # last norm, positional tables, tied projections
    vision_params: int = 0  # encoder and projector: loaded, no KV cache
    quantization: Quantization = Quantization()
    kv_cache_dtype: str = "auto"  # what the checkpoint asks for
    fixed_kv_dtype: bool = False  # the model class ignores --kv-cache-dtype (Falcon)
    vllm_until: str = ""  # last vLLM release with this class; "" while it is there
    vllm_refusal: str = ""  # what vLLM's model class refuses in this config
    safetensors_bytes: int = 0  # size of the weight files, where known
    notes: tuple[str, ...] = ()  # what was assumed, for `assumptions`

    @property
    def total_params(self) -> int:
        """All parameters of the checkpoint, the draft head left out."""
        return (
            sum(
                layer.norm_params
                + layer.ffn.total_params
                + sum(m.params + m.other_params for m in layer.mixers)
                for layer in self.layers
            )
            + self.embedding_params
            + self.lm_head_params
            + self.final_params
            + self.vision_params
        )

    @property
    def active_params(self) -> int:
        """Parameters that one token reads; the embedding table counts as one row."""
        head = self.lm_head_params or self.embedding_params
        return (
            sum(
                layer.norm_params
                + layer.ffn.active_params
                + sum(m.params + m.other_params for m in layer.mixers)
                for layer in self.layers
            )
            + head
        )
