#!/bin/bash
# Prints user data for an EC2 instance: it measures itself once and shuts down. See README.md.
#   ./user-data.sh [s3://BUCKET/PREFIX] > user-data
# With a bucket (the instance's role has to be allowed to write to it) the evidence is copied there.
set -euo pipefail
cd "$(dirname "$0")"
cat << HEAD
#!/bin/bash
trap 'shutdown -h now' EXIT  # whatever happens: an instance that waits is paid for
shutdown -h +1440            # and after a day at the latest
mkdir -p /opt/measure && cd /opt/measure
base64 -d << FILES | tar xz
HEAD
tar c --owner=0 --group=0 --mtime=@0 measure.sh space.toml space-gpu.toml quantize_w8a8.py \
    quantize_w4a8.py | gzip -9n | base64
cat << TAIL
FILES
export HOME=/root DEBIAN_FRONTEND=noninteractive
bash measure.sh > measure.log 2>&1
status=\$?
if [ -n "${1:-}" ]; then
    snap install aws-cli --classic
    aws s3 cp --recursive runs "${1:-}/runs" && aws s3 cp measure.log "${1:-}/measure.log"
fi
exit \$status
TAIL
