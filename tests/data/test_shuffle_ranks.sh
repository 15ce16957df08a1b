#!/usr/bin/env bash
# Workers on 2, 3 and 4 ranks have the samples that they have in one process, with stores in memory and in files.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_SHUFFLE-}" ] || { echo "skipped: built without MPI"; exit 77; }
"$PROGRAM_SHUFFLE" >out 2>&1 || fail "without mpirun: $(grep -v '^ok' out | head -5)"
for count in 2 3 4; do
    ranks "$count" "$PROGRAM_SHUFFLE" >out 2>&1 || fail "$count ranks: $(grep -v '^ok' out | head -5)"
    [ "$(grep -c "^$count ranks" out)" -eq "$count" ] || fail "not $count ranks: $(grep 'ranks$' out)"
done
[ -z "$(ls store)" ] || fail "files are left: $(ls store)"
finish
