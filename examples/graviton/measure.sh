#!/bin/bash
# Measures the instance that it runs on: a campaign of `neoserve tune`, its evidence below runs/.
# Ubuntu 24.04; as root or a user with sudo. On a GPU instance from an image that has the driver.
set -euo pipefail
cd "$(dirname "$0")"

MODEL=Qwen/Qwen2.5-1.5B-Instruct
BUDGET=${BUDGET:-6h}                  # of engine time; the proof at the end may take longer
VLLM=${VLLM:-0.32.0}
NEOSERVE=${NEOSERVE:-neoserve[fast]}  # or the path of a checkout or wheel
RELEASES=https://github.com/vllm-project/vllm/releases/download

if [ -z "${TYPE:-}" ]; then           # which instance this is, by its metadata
    token=$(curl -sfX PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
        http://169.254.169.254/latest/api/token)
    TYPE=$(curl -sf -H "X-aws-ec2-metadata-token: $token" \
        http://169.254.169.254/latest/meta-data/instance-type)
fi

sudo apt-get update -q
sudo apt-get install -qy python3-venv python3-dev build-essential libtcmalloc-minimal4
sudo apt-get install -qy linux-tools-common "linux-tools-$(uname -r)" || true  # perf, for counters
sudo sysctl -q kernel.perf_event_paranoid=0 || true

python3 -m venv engine
engine/bin/pip install -q uv
wheel=$RELEASES/v$VLLM/vllm-$VLLM+cpu-cp38-abi3-manylinux
if command -v nvidia-smi > /dev/null; then
    DEVICE=gpu SPACE=space-gpu.toml
    engine/bin/uv pip install -q --python engine/bin/python "vllm==$VLLM"
elif [ "$(uname -m)" = aarch64 ]; then
    DEVICE=cpu SPACE=space.toml
    engine/bin/uv pip install -q --python engine/bin/python --torch-backend cpu \
        "${wheel}_2_34_aarch64.whl"
else
    DEVICE=cpu SPACE=space.toml
    engine/bin/uv pip install -q --python engine/bin/python --torch-backend cpu \
        "${wheel}_2_35_x86_64.whl"
fi
engine/bin/uv pip install -q --python engine/bin/python "$NEOSERVE"

# Checkpoints of the model in fewer bits. vLLM has kernels for this W4A8 on CPUs alone.
python3 -m venv quantizer
quantizer/bin/pip install -q 'llmcompressor==0.14.*'
quantizer/bin/python quantize_w8a8.py "$MODEL" "$PWD/qwen-w8a8"
CHECKPOINTS="--checkpoint w8a8=$PWD/qwen-w8a8"
if [ "$(uname -m)" = aarch64 ]; then
    quantizer/bin/python quantize_w4a8.py "$MODEL" "$PWD/qwen-w4a8"
    CHECKPOINTS="$CHECKPOINTS --checkpoint w4a8-channel=$PWD/qwen-w4a8"
fi

export PATH="$PWD/engine/bin:$PATH"
if [ -e "runs/$TYPE" ]; then
    neoserve tune --resume "runs/$TYPE"
else
    # shellcheck disable=SC2086  # several words
    neoserve tune "$MODEL" --engine vllm --device "$DEVICE" --space "$SPACE" $CHECKPOINTS \
        --isl 512 --osl 128 --slo 'ttft:p95<3s; tpot:p95<200ms; quality<4%' \
        --max-candidates 16 --budget "$BUDGET" --on "$TYPE" --out "runs/$TYPE"
fi
neoserve verify "runs/$TYPE"
