#!/usr/bin/env bash
# Ranks that are stopped or killed in the middle of a run are named, the job ends, and what was done is kept.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(train --model lenet --data synthetic --samples 640 --batch 60 --lr 0.01 --no-valid --quiet --threads 1 --seed 3)

is_there() {
    [ -d "/proc/$1" ] && ! grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null
}

# strike SIGNAL RANK ARGUMENT...: starts a run, sends the signal to the rank after so many updates that heartbeats have
# told of some, and expects status 1 soon.
strike() {
    local signal=$1 victim=$2 got=0 pid
    shift 2
    rm -rf ck
    timeout -k 1 60 "$@" --checkpoint ck --checkpoint-every 10 >out 2>err </dev/null &
    local job=$!
    for _ in $(seq 600); do
        ls ck 2>/dev/null | grep -qE '^step-0*[2-9][0-9]{2}$' && break
        sleep 0.05
    done
    pid=$(pid_of "$job" "$victim")
    [ -n "$pid" ] || fail "rank $victim is not there: $(cat err)"
    kill -"$signal" "$pid"
    wait "$job" || got=$?
    [ "$got" -eq 1 ] || fail "SIG$signal for rank $victim: status $got: $(head -c 300 err)"
    # It may take a moment to end, and nobody may be there to bury it.
    for _ in $(seq 100); do
        ! is_there "$pid" || sleep 0.05
    done
    ! is_there "$pid" || fail "rank $victim is still there: $(grep State: "/proc/$pid/status")"
    # What mpirun says of a rank that is gone is not ours.
    grep -v -e 'ranks share' -e '^\[' err >said || true
    [ "$(wc -l <said)" -eq 1 ] || fail "SIG$signal for rank $victim: not one line: $(head -c 500 err)"
}

strike STOP 0 "$PARADL" "${run[@]}" --steps 1000000 --pe 2 --stall-timeout 2s
has said "paradl: rank 0 has been silent for "
has said "last heard of in update "
has said "checkpoint"

# The stopped job goes on as if nothing had happened.
last=$(ls ck | tail -1)
more=$((10#${last#step-} + 5))
expect 0 "${run[@]}" --steps $more --pe 2 --checkpoint whole
expect 0 "${run[@]}" --steps $more --pe 2 --checkpoint ck --resume
cmp whole/step-*"$more"/model.safetensors ck/step-*"$more"/model.safetensors || fail "resumed weights differ"

# Rounds, pipelines: nobody has all of the state.
strike STOP 1 "$PARADL" "${run[@]}" --epochs 1000000 --pe 3 --workers 3 --aggregate local:5 --stall-timeout 2s
has said "paradl: rank 1 has been silent for "
has said "; the latest checkpoint in ck is of update "

strike KILL 1 "$PARADL" "${run[@]}" --steps 1000000 --pe 3
has said "paradl: rank 1 was ended by signal 9 (Killed), last heard of in "
! grep -qi memory said || fail "a cause is guessed: $(cat said)"

# restarted RANKS VICTIM ARGUMENT...: kills the rank once, and expects the job to come to its end all the same.
restarted() {
    local ranks=$1 victim=$2 got=0 pid
    shift 2
    rm -rf ck
    timeout -k 1 100 "$PARADL" "${run[@]}" --steps 400 --pe "$ranks" --checkpoint ck --checkpoint-every 50 --restarts 2 "$@" \
        >out 2>err </dev/null &
    local job=$!
    for _ in $(seq 600); do
        [ ! -d ck ] || [ -z "$(ls ck)" ] || break
        sleep 0.02
    done
    pid=$(pid_of "$job" "$victim")
    [ -n "$pid" ] || fail "rank $victim is not there: $(cat err)"
    kill -KILL "$pid"
    wait "$job" || got=$?
    [ "$got" -eq 0 ] || fail "restarts, $*: status $got: $(head -c 500 err)"
}

expect 0 "${run[@]}" --steps 400 --pe 2 --checkpoint undisturbed
restarted 2 1
has err "paradl: rank 1 was ended by signal 9 (Killed)"
has err ": restart 1 of 2 on 2 ranks"
for part in model state; do
    cmp undisturbed/step-*400/$part.safetensors ck/step-*400/$part.safetensors || fail "restarted: another $part"
done
restarted 3 0 --elastic
has err ": restart 1 of 2 on 2 ranks (data 2)"
restarted 3 2 --elastic --micro-batches 20
has err ": restart 1 of 2 on 1 rank"

expect 2 "${run[@]}" --steps 1 --pe 2 --restarts 1
has err "add --checkpoint DIR"
expect 2 "${run[@]}" --steps 1 --checkpoint ck2 --restarts 1
has err "ranks that --pe starts"
expect 2 "${run[@]}" --steps 1 --pe 2 --checkpoint ck2 --elastic
has err "add --restarts N"
expect 2 "${run[@]}" --steps 1 --pe 2 --mesh data:2 --checkpoint ck2 --restarts 1 --elastic
has err "leave out one of them"
expect 2 "${run[@]}" --steps 1 --pe 2 --shuffle local --checkpoint ck2 --restarts 1 --elastic
has err "say --workers, which stays when ranks go"

# Under mpirun nobody but the ranks can say so.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_orte_execute_quiet=1
strike STOP 1 mpirun -n 2 "$PARADL" "${run[@]}" --steps 1000000 --stall-timeout 2s
has said "paradl: rank 1 has been silent for "

# A stranger at the door of rank 0, with garbage or with nothing to say, changes nothing.
"$PARADL" "${run[@]}" --steps 400 --pe 2 --stall-timeout 2s >out 2>err </dev/null &
job=$!
for _ in $(seq 200); do
    pid=$(pid_of "$job" 0)
    [ -z "$pid" ] || break
    sleep 0.05
done
python3 - "$pid" <<'PY'
import os, socket, sys, time
pid, met = sys.argv[1], 0
for _ in range(100):
    links = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try: links.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
            except OSError: pass
        for line in open(f"/proc/{pid}/net/tcp").readlines()[1:]:
            word = line.split()
            if word[3] == "0A" and f"socket:[{word[9]}]" in links and word[1].startswith("0100007F"):
                for data in (b"\xff" * 4096, b"GET / HTTP/1.0\r\n\r\n", b""):
                    s = socket.create_connection(("127.0.0.1", int(word[1].split(":")[1], 16)))
                    s.send(data)
                    s.close() if data else None
                met += 1
    except OSError: pass
    if met: break
    time.sleep(0.02)
PY
got=0
wait "$job" || got=$?
[ "$got" -eq 0 ] || fail "a stranger ended the job: status $got: $(head -c 300 err)"
finish
