#!/usr/bin/env bash
# Halos in flight while a convolution runs, over 1, 2 and 3 extents: the numbers of one rank.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_HALO-}" ] || { echo "skipped: built without MPI"; exit 77; }
for count in 2 3 4 8; do
    ranks "$count" "$PROGRAM_HALO" >out 2>&1 || fail "$count ranks: $(grep -v '^ok' out | head -5)"
    [ "$(grep -c "^$count ranks" out)" -eq "$count" ] || fail "not $count ranks: $(tail -3 out)"
done
finish
