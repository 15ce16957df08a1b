#!/usr/bin/env bash
# The choice of hidden samples among 1.3 million on one core, beside sorting, see bench_select.c.
set -euo pipefail
"$(dirname "$PARADL")/bench/bench_select"
