#!/bin/sh
# Written by NeoServe.
# Certified: 4.01 requests/s (poisson arrivals, 16 prompt and 2 output tokens) keep ttft:p50<700 ms; wrong with a chance of at most 2.5 %.
# Measured there, over 29 requests: TTFT p95 413 ms (191 ms to unbounded); TPOT p95 228 ms (122 ms to unbounded).
# Gain over the engine's defaults: 1.19x (0.47 to 2.13, outside of it with a chance of 10%); none is proven.
# Quality: word perplexity -0.8% (-3.1% to +1.0%), budget +4.0%: PASS.
# Price: no price is known, so no cost is stated.
# Further arguments are appended: ./run.sh --port 8081
# Evidence: ledger head 5fb38ef7259b1e9518840d3db54abda95b0ef7b70a18bfd6ab46e27185af9fde
set -eu
# The CPUs that it was measured on; on others its figures are others.
taskset -cp 0-1 $$ > /dev/null ||
  echo 'run.sh: not bound to CPUs 0-1, as it was when measured' >&2
exec /opt/neoserve/.venv/bin/python3 -m neoserve.measure.engine.llamacpp_server \
  --model /opt/neoserve/runs/models/SmolLM2-135M-Instruct.Q8_0.gguf \
  --ctx-size 1024 \
  --metrics \
  --host 127.0.0.1 \
  --port 8080 "$@"
