#!/usr/bin/env bash
# Random plans on 2, 3 and 4 ranks give the numbers of one rank; 20 of them, tests/long has more.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_PLANS-}" ] || { echo "skipped: built without MPI"; exit 77; }
# Some begin where a class token was cut in space (19), a table of positions had pieces of one row (25), and experts of all replicas had gradients
# summed over another axis beside parts (2103), and more of them on one replica than on the other (1268).
for case in "2 1 8" "3 1 4" "4 19 8" "4 1268 1" "4 2103 1" "2 9 5 guard" "3 5 3 guard" "4 1 3 guard" "4 5474 1 guard" \
    "2 1 2 emulated" "4 60 2 emulated"; do
    read -r count first plans device <<<"$case"
    status=0
    ranks "$count" "$PROGRAM_PLANS" "$first" "$plans" $device >out 2>&1 || status=$?
    [ "$status" -ne 77 ] || continue # no emulated GPU in this build
    [ "$status" -eq 0 ] || fail "$count ranks $device: $(grep -A1 FAIL out | head -8)"
    grep "^$count ranks:" out || fail "no result on $count ranks: $(tail -3 out)"
done
finish
