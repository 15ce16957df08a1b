#!/usr/bin/env bash
# libparadl-mpi.so under a program that knows nothing of it: results are right whatever the algorithm, and what is
# left to the MPI library is named once.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

# preload RANKS [VARIABLE=VALUE]...: output in out, messages in err.
preload() {
    local count=$1 settings=() setting
    shift
    for setting in "$@"; do settings+=(-x "$setting"); done
    ranks "$count" -x LD_PRELOAD="$PARADL_MPI" "${settings[@]}" "$PROGRAM_PRELOAD" >out 2>err ||
        fail "$count ranks, $*: $(grep -v '^ok' out | head -5) $(head -c 300 err)"
}

# says COUNT TEXT: so many lines of err contain the text.
says() {
    [ "$(grep -cF -- "$2" err)" -eq "$1" ] || fail "\"$2\" is not $1 times in err: $(head -c 300 err)"
}

ranks 3 "$PROGRAM_PRELOAD" >out 2>err || fail "the program without the library: $(grep -v '^ok' out | head -5)"
for count in 1 2 3 5; do preload "$count"; done
for algorithm in ring circulant hd_far; do
    preload 4 PARADL_ALLREDUCE=$algorithm PARADL_REDUCE_SCATTER=$algorithm PARADL_ALLGATHER=$algorithm \
        PARADL_IALLREDUCE=$algorithm PARADL_ALLTOALL=bruck PARADL_CHUNK=1KiB
done
preload 6 PARADL_ALLREDUCE=levels:ring/2,circulant/3 PARADL_ALLGATHER=ring_ring PARADL_RANKS_PER_NODE=2
preload 8 PARADL_IALLREDUCE=auto PARADL_MEASURE=1

preload 3 PARADL_VERBOSE=1 PARADL_ALLREDUCE=recmul PARADL_LATENCY=5us PARADL_BANDWIDTH=1GB/s
says 1 "MPI_Allreduce with an operation that is not predefined: left to the MPI library"
grep -q "allreduce of .* on 3 ranks: recmul" err || fail "recmul was not chosen: $(head -c 300 err)"
! grep -q "allreduce of .* on 3 ranks: ring" err || fail "ring was chosen"

# Two ranks try what is fastest, three ranks and a choice of the user do not.
preload 2 PARADL_VERBOSE=1
says 2 "the fastest of 4 ways in 6 calls each"
preload 2 PARADL_VERBOSE=1 PARADL_ALLREDUCE=ring
says 0 "the fastest of 4 ways"
preload 2 PARADL_VERBOSE=1 PARADL_SHARED=0
says 0 "the fastest of 4 ways"
preload 3 PARADL_VERBOSE=1
says 0 "the fastest of 4 ways"

preload 3 PARADL_VERBOSE=1 PARADL_ALLREDUCE=rshd
says 1 "for which no algorithm fits these ranks or is faster: left to the MPI library"
# On a measured network the choice is that of the simulation, or the library's.
printf 'paradl: topology/1\ntopology: ring\nhosts: 4\nmessages: {chunk: 1KiB, library: [{bytes: 1B, seconds: 1ns}, {bytes: 1GiB, seconds: 2ns}]}\n' >net.yaml
preload 4 PARADL_VERBOSE=1 PARADL_NETWORK="$PWD/net.yaml"
grep -q "allreduce of .* on 4 ranks: left to the MPI library, which was measured to be faster" err || fail "the library was not chosen: $(head -c 300 err)"
sed -i 's/, library.*/}/' net.yaml
preload 4 PARADL_VERBOSE=1 PARADL_NETWORK="$PWD/net.yaml"
grep -q "allreduce of .* on 4 ranks: [a-z]*_*[a-z]*$" err || fail "nothing was chosen on the network: $(head -c 300 err)"
sed -i 's/chunk: 1KiB/&, host_order: "0123456789abcdef"/' net.yaml
preload 4 PARADL_VERBOSE=1 PARADL_NETWORK="$PWD/net.yaml"
says 1 "PARADL_NETWORK: the network was measured on other hosts"
preload 2 PARADL_NETWORK=nowhere.yaml
says 1 "PARADL_NETWORK: "

preload 2 PARADL_ALLREDUCE=rnig
says 1 "PARADL_ALLREDUCE: expected auto, mpi or an algorithm"
preload 2 PARADL_VERBOSE=1 PARADL_ALLREDUCE=mpi PARADL_REDUCE_SCATTER=mpi PARADL_ALLGATHER=mpi PARADL_ALLTOALL=mpi
says 0 "paradl-mpi"
finish
