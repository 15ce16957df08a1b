#!/usr/bin/env bash
# State and weights on the hosts of 2 and 3 ranks give the bits of those on the devices, with updates during backward.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_HOST-}" ] || { echo "skipped: built without MPI"; exit 77; }
for count in 2 3; do
    status=0
    ranks "$count" "$PROGRAM_HOST" >out 2>&1 || status=$?
    [ "$status" -eq 0 ] || fail "$count ranks: $(grep -vE '^ok' out | head -5)"
    [ "$(grep -c "^$count ranks" out)" -eq "$count" ] || fail "not $count ranks: $(tail -3 out)"
done
finish
