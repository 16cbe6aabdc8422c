"""The embedded llama.cpp server as a program, run with ``python -m``.

It takes flags of llama.cpp's own ``llama-server``, so one argument list serves both. What ends
it when NeoServe dies is `leashed`, which starts it.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Serve until killed; end with 1 when the engine does not start."""
    flags = _parser().parse_args(argv)
    import xllamacpp

    try:
        server = xllamacpp.Server(_params(xllamacpp, flags))
    except RuntimeError as error:  # the log above it says why
        sys.exit(f"llama.cpp: {error}")
    print(f"listening on {server.listening_address}", flush=True)
    while True:
        signal.pause()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llamacpp_server", allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0: a free one")
    parser.add_argument("--ctx-size", type=int, default=0,
                        help="tokens of all slots together; 0: as the model says")  # fmt: skip
    parser.add_argument("--parallel", type=int, default=-1, help="-1: 4 slots, one cache for all")
    parser.add_argument("--threads", type=int, default=-1)
    parser.add_argument("--threads-batch", type=int, default=-1)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--ubatch-size", type=int, default=512)
    parser.add_argument("--cache-type-k", default="f16")
    parser.add_argument("--cache-type-v", default="f16")
    parser.add_argument("--flash-attn", choices=("on", "off", "auto"), default="auto")
    parser.add_argument("--poll", type=int, default=50, help="0: workers sleep, 100: they spin")
    parser.add_argument("--threads-http", type=int, default=-1)
    parser.add_argument("--metrics", action="store_true")
    switch = argparse.BooleanOptionalAction
    parser.add_argument("--cont-batching", action=switch, default=True)
    parser.add_argument("--kv-unified", action=switch, default=False)
    parser.add_argument("--cache-prompt", action=switch, default=True)
    parser.add_argument("--slots", action=switch, default=True, help="the route /slots")
    return parser


def _params(xllamacpp: Any, flags: argparse.Namespace) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = flags.model
    params.hostnames = [flags.host]
    params.port = flags.port
    params.n_ctx = flags.ctx_size
    params.n_parallel = flags.parallel
    params.cpuparams.n_threads = flags.threads
    params.cpuparams_batch.n_threads = flags.threads_batch
    params.cpuparams.poll = params.cpuparams_batch.poll = flags.poll
    params.n_batch = flags.batch_size
    params.n_ubatch = flags.ubatch_size
    params.cache_type_k = _ggml_type(xllamacpp, flags.cache_type_k)
    params.cache_type_v = _ggml_type(xllamacpp, flags.cache_type_v)
    params.flash_attn_type = _flash_attn(xllamacpp, flags.flash_attn)
    params.n_threads_http = flags.threads_http
    params.endpoint_metrics = flags.metrics
    params.endpoint_slots = flags.slots
    params.cont_batching = flags.cont_batching
    params.kv_unified = flags.kv_unified
    params.cache_prompt = flags.cache_prompt
    params.ui = False
    return params


def _ggml_type(xllamacpp: Any, name: str) -> Any:
    try:
        return xllamacpp.ggml_type[f"GGML_TYPE_{name.upper()}"]
    except KeyError:
        sys.exit(f"llama.cpp: unknown cache type {name!r}; known: f16, f32, bf16, q8_0, q4_0")


def _flash_attn(xllamacpp: Any, name: str) -> Any:
    word = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[name]
    return xllamacpp.llama_flash_attn_type[f"LLAMA_FLASH_ATTN_TYPE_{word}"]


if __name__ == "__main__":
    main()
