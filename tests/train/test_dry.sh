#!/usr/bin/env bash
# What a dry session says of every rank is what the real one holds, and sends, under named strategies on 4 ranks.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_DRY-}" ] || { echo "skipped: built without MPI"; exit 77; }
ranks 4 "$PROGRAM_DRY" >out 2>&1 || fail "$(grep FAILED out || tail -5 out)"
cat out
finish
