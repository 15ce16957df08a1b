#!/usr/bin/env bash
# All strategies that have a name, on a device without host access, have the bits of the CPU by every transport.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_GUARD-}" ] || { echo "skipped: built without MPI"; exit 77; }
for count in 3 4; do
    ranks "$count" "$PROGRAM_GUARD" strategies >out 2>&1 || fail "$count ranks: $(grep -vE '^ok' out | head -12)"
done
finish
