#!/usr/bin/env bash
# The claims that have to be met, at full size.
set -euo pipefail

bash "$SOURCE/examples/experiments/claims.sh" C1 C3 C4 C5 C6 C8 C9 --strict
