#!/usr/bin/env bash
# Every network with every optimizer and every sharding on 3 to 6 ranks.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_SHARDING-}" ] || { echo "skipped: built without MPI"; exit 77; }
for count in 3 4 5 6; do
    ranks "$count" "$PROGRAM_SHARDING" all >out 2>&1 || fail "$count ranks: $(grep -v '^ok' out | head -5)"
done
finish
