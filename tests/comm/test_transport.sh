#!/usr/bin/env bash
# Memory of devices between ranks, by every transport: the guard device, whose streams are threads, and the emulated GPU.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

for case in "2 guard" "3 lazy" "4 guard" "1 emulated" "3 emulated"; do
    read -r count device <<<"$case"
    status=0
    ranks "$count" "$PROGRAM_TRANSPORT" "$device" >out 2>&1 || status=$?
    [ "$status" -ne 77 ] || continue # no emulated GPU in this build
    [ "$status" -eq 0 ] || fail "$count ranks, $device: $(grep -vE '^(ok|---)' out | head -8)"
    grep -q '^transport host' out || fail "$count ranks, $device: no transport host"
    [ "$device" = emulated ] || grep -q '^transport nccl' out || fail "$count ranks, $device: no transport nccl"
    [ "$count" -eq 1 ] || grep -q '^transport ipc' out || fail "$count ranks, $device: no transport ipc: $(head -5 out)"
done
finish
