#!/usr/bin/env bash
# Speed of the compiler on one core; see bench_compile.c.
set -euo pipefail
exec "$(dirname "$PARADL")/bench/bench_compile"
