#!/bin/sh
# Written by NeoServe.
# Certified: 1.49 requests/s (poisson arrivals, 16 prompt and 4 output tokens) keep ttft:p50<4.00 s; wrong with a chance of at most 2.5 %.
# Measured there, over 120 requests: TTFT p95 2.63 s (1.43 s to unbounded); TPOT p95 1.37 s (443 ms to unbounded).
# Gain over the engine's defaults: 1.81x (0.93 to 5.67, outside of it with a chance of 10%); none is proven.
# Quality: not checked; only settings that can change answers are.
# Price: no price is known, so no cost is stated.
# Further arguments are appended: ./run.sh --port 8001
# Evidence: ledger head bbe80b913e27914c2b21fbbd87f19cb6d0ce8fe54a3e6bd4f50571c513f6de7e
set -eu
# The CPUs that it was measured on; on others its figures are others.
taskset -cp 0-1 $$ > /dev/null ||
  echo 'run.sh: not bound to CPUs 0-1, as it was when measured' >&2
export DO_NOT_TRACK=1
export HF_HUB_OFFLINE=1
export VLLM_CPU_KVCACHE_SPACE=1
export VLLM_CPU_OMP_THREADS_BIND=0-1
export VLLM_NO_USAGE_STATS=1
exec /opt/vllm/venv/bin/python -m vllm.entrypoints.openai.api_server \
  --model /opt/vllm/smollm2 \
  --max-model-len 256 \
  --enforce-eager \
  --host 127.0.0.1 \
  --port 8000 "$@"
