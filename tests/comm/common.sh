# What the tests of comm share.
export OMP_NUM_THREADS=1
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
# Open MPI itself leaks.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0:${ASAN_OPTIONS-}

# ranks COUNT COMMAND...: more ranks than cores are usual here, so they give way to each other while they wait.
ranks() {
    local count=$1
    shift
    timeout 100 mpirun --oversubscribe --mca mpi_yield_when_idle 1 --mca btl_vader_single_copy_mechanism none \
        -n "$count" "$@"
}

failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

finish() {
    [ "$failures" -eq 0 ] || exit 1
    echo "all as expected"
}
