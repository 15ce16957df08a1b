#!/usr/bin/env bash
# Training on the guard device has the bits of the CPU, and streams that do not wait are noticed.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_GUARD-}" ] || { echo "skipped: built without MPI"; exit 77; }
export TSAN_OPTIONS="suppressions=$SOURCE/tests/campaign/tsan.supp:ignore_noninstrumented_modules=1:halt_on_error=1"
ranks 2 "$PROGRAM_GUARD" >out 2>&1 || fail "2 ranks: $(grep -vE '^ok' out | head -12)"
if grep -q __tsan_init "$PROGRAM_GUARD"; then
    ranks 2 "$PROGRAM_GUARD" race >out 2>&1 || true
    grep -q 'ThreadSanitizer: data race' out || fail "the thread sanitizer sees no race where nobody waits: $(tail -3 out)"
fi
finish
