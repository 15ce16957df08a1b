#!/usr/bin/env bash
# A program that starts its own ranks: what they print arrives, and whatever happens to one of them the program
# ends, with one line that says why.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"
unset OMP_NUM_THREADS

# launch RANKS MODE STATUS [MESSAGE]: the error output is this one line, or nothing.
launch() {
    local got=0
    timeout -k 5 50 env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM \
        "$PROGRAM_LAUNCH" "$1" "$2" >out 2>err </dev/null || got=$?
    [ "$got" -eq "$3" ] || fail "$1 ranks, $2: exit status $got, expected $3: $(head -c 300 err)"
    if [ $# -gt 3 ]; then
        # The trace of a crash is not ours, and welcome.
        [ "$(grep -vc '^\[' err)" -eq 1 ] || fail "$1 ranks, $2: not one line: $(head -c 500 err)"
        grep -q "^paradl: $4" err || fail "$1 ranks, $2: \"$4\" expected: $(head -c 300 err)"
    else
        [ ! -s err ] || fail "$1 ranks, $2: nothing expected: $(head -c 300 err)"
    fi
    [ -z "$(find . -name 'paradl-*')" ] || fail "$1 ranks, $2: a file is left"
}

for count in 1 3; do
    launch "$count" sum 0
    grep -q "^sum $count, terminal 00, input 0, threads " out || fail "$count ranks: $(cat out)"
done

launch 3 agree 2 "rank 2: train.bin: cut short"
launch 3 all 1 "train.bin: not there"
launch 2 abort 1 "rank 1: disk full"
launch 3 abort-all 2 "rank [0-2]: no memory"
# mpirun leaves the ranks that it ends one second; above that was so, here it need not be.
export OMPI_MCA_odls_base_sigkill_timeout=0
launch 2 early 2 "everyone sees this"
launch 2 kill 1 "a rank was ended by signal 9 (Killed): the others"
launch 2 crash 1 "a rank was ended by signal 6"
launch 2 exit 1 "a rank ended with status 7"
launch 2 leave 1 "a rank ended with status"
launch 0 bad 2 "0 ranks"
PARADL_MPIRUN=./nowhere launch 2 sum 1 "./nowhere is not found"
# Ranks that do not start, and an mpirun that does not end when it is asked to.
printf '#!/bin/bash\ntrap "" TERM\nexec sleep 60\n' >standstill && chmod +x standstill
PARADL_MPIRUN=./standstill launch 2 late 1 "the 2 ranks did not find each other within 1 s"

unset OMPI_MCA_odls_base_sigkill_timeout

# An end that is asked for is an end in peace.
for signal in INT TERM; do
    : >out # the one before may have said that it runs
    # In the background of a script SIGINT would be ignored.
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$PROGRAM_LAUNCH" 2 stop >out 2>err &
    job=$!
    for _ in $(seq 300); do
        grep -q running out && break
        sleep 0.05
    done
    kill -"$signal" "$job"
    got=0
    wait "$job" || got=$?
    [ "$got" -eq 0 ] && grep -q checkpoint out || fail "SIG$signal: status $got: $(cat out) $(head -c 300 err)"
done

# The ranks do not outlive the program that started them.
: >out
"$PROGRAM_LAUNCH" 2 stop >out 2>err </dev/null &
job=$!
for _ in $(seq 300); do
    grep -q running out && break
    sleep 0.05
done
mpirun=$(pgrep -P "$job")
kill -KILL "$job"
wait "$job" 2>/dev/null || true
for _ in $(seq 200); do
    kill -0 "$mpirun" 2>/dev/null || break
    sleep 0.05
done
! kill -0 "$mpirun" 2>/dev/null || fail "mpirun goes on alone"

# Under a foreign mpirun a rank is known as one.
got=0
ranks 2 "$PROGRAM_LAUNCH" 2 sum >out 2>err </dev/null || got=$?
[ "$got" -eq 0 ] && grep -q "^sum 2," out || fail "under mpirun: status $got: $(cat out)"
got=0
ranks 3 "$PROGRAM_LAUNCH" 3 abort >out 2>err </dev/null || got=$?
[ "$got" -eq 1 ] || fail "abort under mpirun: status $got"
[ "$(grep -c '^paradl: rank 2: disk full' err)" -eq 1 ] || fail "abort under mpirun: $(head -c 300 err)"
finish
