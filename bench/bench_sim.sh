#!/usr/bin/env bash
# Speed of the network simulator on one core, beside SimGrid's; see bench_sim.c.
set -euo pipefail
exec "$(dirname "$PARADL")/bench/bench_sim"
