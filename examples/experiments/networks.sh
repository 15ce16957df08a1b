# C7 to C9: circuits, Kautz networks, two-dimensional fully connected networks. Sourced by claims.sh.

claim_C7() {
    local hosts=1024 bytes rate tree hybrid other
    [ -z "$short" ] || hosts=64
    heading C7 "hybrid electrical and optical switching speeds up data-parallel training"
    echo "    ring allreduce on $hosts hosts; hybrid: the fat tree with one optical port per host, circuits switched once"
    echo "    (10 ms, included), taken by messages from 1 MB on. Electrical 12.5 GB/s. No published figure to compare."
    printf '    %-8s %-10s %12s %12s %12s %10s\n' vector optical 'abci-v' 'fat tree 1:3' hybrid 'saves'
    for bytes in 256MiB 1GiB 4GiB; do
        other=$(simulate time_s --topology abci-v --hosts $hosts --bytes $bytes --algorithm ring)
        tree=$(simulate time_s --topology fat-tree --hosts $hosts --uplinks 11 --bytes $bytes --algorithm ring)
        for rate in 12.5GB/s 50GB/s; do
            hybrid=$(simulate time_s --topology hybrid --hosts $hosts --uplinks 11 --bytes $bytes --algorithm ring \
                --optical-bandwidth $rate)
            printf '    %-8s %-10s %9.2f ms %9.2f ms %9.2f ms %8s %%\n' $bytes $rate "$(number "1e3 * $other" %.6f)" \
                "$(number "1e3 * $tree" %.6f)" "$(number "1e3 * $hybrid" %.6f)" "$(saving "$hybrid" "$tree")"
        done
    done
    echo "    Saved against the fat tree. Below 1 MB a message (vector / hosts) the circuits stay unused. Switching during"
    echo "    the collective, and traffic of others on the tree, are not modelled."
}

claim_C8() {
    local degree=16 shape=1,16,1,17 nodes=272 block ways kautz pairwise bound bytes
    [ -z "$short" ] || degree=4 shape=1,4,1,5 nodes=20
    heading C8 "Kautz collectives 7 times faster than Dragonfly"
    echo "    all-to-all, $nodes nodes of degree $degree, 50 Gb/s per port, start-up 0.71 us. The shape of the Dragonfly is"
    echo "    inferred from nodes and degree; which collective and size were published is not known."
    printf '    %-8s %12s %22s %10s %22s\n' block Kautz 'Dragonfly, its bound' ratio 'Dragonfly, pairwise'
    for block in 64 256 1024; do
        bytes=$((block * nodes))KiB
        ways=(--collective alltoall --bytes "$bytes" --link-bandwidth 50Gb/s --link-latency 0.71us)
        kautz=$(simulate time_s --topology kautz --degree $degree --diameter 2 --algorithm kautz "${ways[@]}")
        pairwise=$(simulate time_s --topology dragonfly --shape $shape --algorithm pairwise "${ways[@]}")
        bound=$(simulate bound_s --topology dragonfly --shape $shape --algorithm pairwise "${ways[@]}")
        printf '    %4s KiB %9.3f ms %19.3f ms %10s %15.3f ms   %s\n' $block "$(number "1e3 * $kautz" %.6f)" \
            "$(number "1e3 * $bound" %.6f)" "$(number "$bound / $kautz" %.2f)" "$(number "1e3 * $pairwise" %.6f)" \
            "$(verdict "$(number "$bound / $kautz" %.2f)" 7 8)"
    done
    echo "    The ratio takes the Dragonfly at its lower bound, which no algorithm can beat; the schedule of pairs takes more."
}

claim_C9() {
    local n sizes='4 8 16 32' time bound
    [ -z "$short" ] || sizes=4
    heading C9 "all-to-all on two-dimensional fully connected networks is bandwidth-optimal"
    printf '    %-8s %12s %12s %14s\n' network time bound 'of the bound'
    for n in $sizes; do
        set -- --topology fc2 --dims "${n}x$n" --collective alltoall --algorithm fc2 --bytes $((n * n))MiB
        time=$(simulate time_s "$@")
        bound=$(simulate bound_s "$@")
        printf '    %-8s %9.3f ms %9.3f ms %12s %%   %s\n' "${n}x$n" "$(number "1e3 * $time" %.6f)" \
            "$(number "1e3 * $bound" %.6f)" "$(number "100 * $bound / $time" %.2f)" \
            "$(verdict "$(number "100 * $bound / $time" %.2f)" 99 100)"
    done
}
