#!/usr/bin/env bash
# Every algorithm, type, operation and size on more ranks, beside the MPI library's own collectives.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

for count in 5 8; do
    ranks "$count" "$PROGRAM_EXECUTOR" >out 2>&1 || fail "$count ranks: $(grep -v '^ok' out | head -5)"
done
finish
