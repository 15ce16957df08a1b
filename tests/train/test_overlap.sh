#!/usr/bin/env bash
# Tensors in flight while something else is computed, on 2, 3 and 4 ranks: the same bits as without.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_OVERLAP-}" ] || { echo "skipped: built without MPI"; exit 77; }
for count in 2 3 4; do
    ranks "$count" "$PROGRAM_OVERLAP" "$SOURCE/tests/train/models" >out 2>&1 ||
        fail "$count ranks: $(grep -v '^ok' out | head -5)"
    [ "$(grep -c "^$count ranks" out)" -eq "$count" ] || fail "not $count ranks: $(tail -3 out)"
done
finish
