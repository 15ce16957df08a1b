#!/usr/bin/env bash
# paradl coll bench under mpirun, and the other commands of coll.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"
[ -n "${PARADL-}" ] || exit 0

# bench RANKS STATUS ARGUMENT...
bench() {
    local count=$1 wanted=$2 got=0
    shift 2
    ranks "$count" "$PARADL" coll bench "$@" >out 2>err || got=$?
    [ "$got" -eq "$wanted" ] || fail "coll bench $*: exit status $got, expected $wanted: $(head -c 300 err)"
}

# says TEXT: exactly one line of ours, with this in it.
says() {
    [ "$(grep -c '^paradl: ' err)" -eq 1 ] || fail "not one message: $(head -c 500 err)"
    grep -q "^paradl: .*$1" err || fail "\"$1\" is not in the message: $(head -c 300 err)"
}

for collective in allreduce reduce-scatter allgather broadcast alltoall; do
    bench 3 0 --collective "$collective" --min-bytes 100 --max-bytes 10kB --iterations 2
    grep -q right out || fail "$collective: no result"
    ! grep -q WRONG out || fail "$collective: $(grep WRONG out)"
done

bench 4 0 --algorithm ring --min-bytes 1MiB --max-bytes 1MiB --iterations 3 --json
python3 - <<'PYTHON' || fail "the JSON is not as it should be: $(head -c 300 out)"
import json
bench = json.load(open("out"))
assert bench["ranks"] == 4 and bench["collective"] == "allreduce"
assert [row["algorithm"] for row in bench["rows"]] == ["mpi", "ring"]
for row in bench["rows"]:
    assert row["bytes"] == 1 << 20 and row["wrong"] == 0 and 0 < row["min_s"] <= row["median_s"]
    assert abs(row["bus_bytes_per_s"] / row["algorithm_bytes_per_s"] - 1.5) < 1e-9
PYTHON

bench 3 2 --algorithm rshd
says "rshd"
bench 3 2 --algorithm rnig
says "rnig"
bench 2 2 --min-bytes 8kB --max-bytes 4kB
says "sizes from 8000 to 4000"
bench 2 2 --iterations 0
says "iterations"

# On a network: simulated beside real, and what auto takes.
printf 'paradl: topology/1\ntopology: ring\nhosts: 4\nmessages: {chunk: 48KiB, library: [{bytes: 4KiB, seconds: 1ns}, {bytes: 16KiB, seconds: 1s}]}\n' >ring4.yaml
bench 4 0 --network ring4.yaml --min-bytes 4KiB --max-bytes 16KiB --iterations 2 --json
python3 - <<'PYTHON' || fail "coll bench --network: $(head -c 300 out)"
import json
rows = json.load(open("out"))["rows"]
assert all(row["simulated_s"] > 0 for row in rows if row["algorithm"] != "mpi")
chosen = {row["bytes"]: row["algorithm"] for row in rows if row.get("auto")}
best = min((row["simulated_s"], row["algorithm"]) for row in rows if row["bytes"] == 16384 and "simulated_s" in row)[1]
assert chosen[4096] == "mpi" and chosen[16384] == best, chosen
PYTHON
bench 3 2 --network ring4.yaml
says "the job has 3 ranks and the network 4 hosts"

# A network is right for the order of hosts in which it was measured.
sed 's/chunk: 48KiB/&, host_order: "0123456789abcdef"/' ring4.yaml >elsewhere.yaml
bench 4 2 --network elsewhere.yaml --max-bytes 4KiB
says "the network was measured on other hosts, or with the ranks on these hosts in another order"
sed 's/chunk: 48KiB/&, host_order: "0123"/' ring4.yaml >short.yaml
bench 4 2 --network short.yaml
says "short.yaml:4: .*host_order has 16 hexadecimal digits"
if unshare --uts true 2>/dev/null; then
    cat >named.sh <<'SCRIPT'
exec unshare --uts sh -c 'hostname "node$((OMPI_COMM_WORLD_RANK ^ SWAP))"; exec "$@"' sh "$@"
SCRIPT
    printf 'paradl: topology/1\ntopology: ring\nhosts: 4\n' >ring.yaml
    SWAP=0 ranks 4 sh named.sh "$PARADL" calibrate --network ring.yaml -o measured.yaml >out 2>err ||
        fail "calibrate --network: $(head -c 300 err)"
    SWAP=0 ranks 4 sh named.sh "$PARADL" coll bench --network measured.yaml --max-bytes 4KiB >out 2>err ||
        fail "hosts in the same order: $(head -c 300 err)"
    ! SWAP=1 ranks 4 sh named.sh "$PARADL" coll bench --network measured.yaml --max-bytes 4KiB >out 2>err ||
        fail "hosts in another order were taken"
    says "in another order"
    sed "/^levels:/,/^  -/d" "$SOURCE/share/systems/local.yaml" >four.yaml
    printf 'levels:\n  - {name: network, transport: ethernet, fanout: 4, bandwidth: 1GB/s, latency: 0}\nnetwork: measured.yaml\n' >>four.yaml
    training=(train --model lenet --data synthetic --samples 64 --batch 16 --steps 1 --no-valid --quiet --strategy data --system four.yaml)
    SWAP=0 ranks 4 sh named.sh "$PARADL" "${training[@]}" >out 2>err || fail "train in the same order: $(head -c 300 err)"
    ! SWAP=1 ranks 4 sh named.sh "$PARADL" "${training[@]}" >out 2>err || fail "train took hosts in another order"
    says "in another order"
fi

"$PARADL" coll list >out || fail "coll list"
grep -q circulant out || fail "circulant is not in the list"
"$PARADL" coll verify circulant --ranks 13 --elements 100 >out || fail "coll verify"
grep -q "circulant on 13 ranks: right" out || fail "verify says: $(cat out)"
finish
