#!/usr/bin/env bash
# Speed of the oracle; see bench_oracle.c.
set -euo pipefail
exec "$(dirname "$PARADL")/bench/bench_oracle"
