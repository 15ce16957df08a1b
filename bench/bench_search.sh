#!/usr/bin/env bash
# Speed of the exact search on all cores; see bench_search.c. With CALCULON=its checkout, Calculon on the same space beside it.
set -euo pipefail
"$(dirname "$PARADL")/bench/bench_search"
[ -n "${CALCULON:-}" ] || exit 0
cd "$CALCULON"
time python3 bin/calculon llm-optimal-execution models/gpt3-175B.json 4096 4096 float16 systems/a100_80g.json /dev/null
