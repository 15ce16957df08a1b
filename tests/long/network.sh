# What the tests on real networks of 8 hosts share: namespaces and shaped cables (network.py), and Open MPI with a rank on each host.
. "$SOURCE/tests/comm/common.sh"

[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root"; exit 77; }
for tool in ip tc mpirun unshare; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
ip netns add pdls999 2>/dev/null || { echo "skipped: network namespaces are not allowed here"; exit 77; }
ip netns del pdls999
network=$SOURCE/tests/long/network.py
trap 'python3 "$network" down' EXIT

# Ranks that poll would take the cores from those that move bytes: they sleep a little.
printf '#include <time.h>\nint sched_yield(void) { struct timespec t = {0, 30000}; return nanosleep(&t, 0); }\n' >yield.c
"${CC:-cc}" -shared -fPIC -O2 -o yield.so yield.c
# Open MPI starts its daemons through this: the host of an address is its namespace, with a host name of its own.
cat >agent.sh <<'AGENT'
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=pdlh$((${1##*.} - 1)); shift
exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"
AGENT
chmod +x agent.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hosts=$(printf '10.77.0.%d:1,' 1 2 3 4 5 6 7 8)

on_hosts() {
    # shellcheck disable=SC2016
    ip netns exec pdlh0 unshare --uts sh -c 'hostname pdlh0; exec "$0" "$@"' timeout 900 mpirun \
        --mca plm rsh --mca plm_rsh_agent "$PWD/agent.sh" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 \
        --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca pml ob1 --mca mpi_yield_when_idle 1 \
        --mca hwloc_base_binding_policy none -H "${hosts%,}" -n 8 -x LD_PRELOAD="$PWD/yield.so" -x PARADL_SHARE \
        -x PARADL_LIB "$PARADL" "$@"
}

export PARADL_LIB=${PARADL_LIB:-$(dirname "$PARADL")/lib/paradl}

# up SHAPE: writes SHAPE.yaml and builds that network. 20 Mbit/s a cable: the wires are slow, and not the cores that all hosts share.
up() {
    local options rates="20 20"
    case $1 in # topology, then Mbit/s of hosts and of cables between switches
    tree) options='topology: fat-tree\nhosts: 8\nleaf_hosts: 4\nuplinks: 1' rates="20 26.667" ;;
    ring) options='topology: ring\nhosts: 8' ;;
    torus) options='topology: torus\ndims: [4, 2]' ;;
    dln) options='topology: dln\nhosts: 8\nhosts_per_switch: 2' ;;
    *) fail "unknown shape $1" && exit 1 ;;
    esac
    # shellcheck disable=SC2059
    printf "paradl: topology/1\n$options\n" >"$1.yaml"
    # shellcheck disable=SC2086
    python3 "$network" up "$PARADL" "$1.yaml" $rates
}

# measure SHAPE: calibrates that network into SHAPE-measured.yaml.
measure() {
    on_hosts calibrate --network "$PWD/$1.yaml" -o "$PWD/$1-measured.yaml" --quiet 2>err || fail "$1: calibrate: $(tail -3 err)"
}
