#!/usr/bin/env bash
# Time of an epoch under global, local, partial and paired shuffling at the size of ImageNet, projected.
#
#     examples/experiments/shuffle_time.sh [--short] [--file-system RATE] [FOLDER]
#
# ResNet-50, 32 samples per GPU, 1,281,167 samples of 110 kB, abci-v, 64 to 4,096 workers, in 32 and in 16 bits. Tables
# go to standard output and, with plots, to FOLDER (default: shuffle_time). The rate of the exchange comes from simulating
# a personalised all-to-all on the topology abci-v by link loads, which for its equal messages is exact (the first size
# is simulated flow by flow as well); everything else is the projection of docs/data_policy.md. What the file system of that machine
# gives is not published: RATE is by default that of the global file system of the K computer, 0.2 TB/s (High-Performance Storage List
# 2019, vi4io.org, by IOR); the end of the output has the rate that the published factor of five asks for. $PARADL names
# the command (default: paradl on the path).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
paradl=${PARADL:-paradl}
sizes='64 128 256 512 1024 2048 4096'
folder=shuffle_time
shared=200GB/s
while [ $# -gt 0 ]; do
    argument=$1
    shift
    case $argument in
    --short) sizes='64 128 256' ;;
    --file-system)
        shared=${1:-}
        shift || true
        ;;
    -*)
        echo "shuffle_time.sh: unknown argument \"$argument\": expected --short, --file-system or a folder" >&2
        exit 2
        ;;
    *) folder=$argument ;;
    esac
done
mkdir -p "$folder"

# alltoall WORKERS BYTES ENGINE: seconds of a personalised all-to-all in which every worker sends BYTES in all.
alltoall() {
    "$paradl" simulate --topology abci-v --hosts "$1" --collective alltoall --algorithm pairwise --bytes "$2" \
        --engine "$3" --json | awk -F'[:,]' '/"time_s"/ { printf "%.12g\n", $2; exit }'
}

# policies PRECISION WORKERS RATE: "POLICY FIELD VALUE" of every policy without hiding.
policies() {
    "$paradl" plan --model resnet50 --system abci-v --data imagenet --pe "$2" --strategy data --samples-per-pe 32 \
        --precision "$1" --parameters default --data-policy all --exchange-bandwidth "$3" \
        --set "storage.shared.bandwidth=$shared" --json |
        awk -F'": ' '/"data_policies"/ { inside = 1 }
            !inside { next }
            /"policy":/ { name = $2; gsub(/"|,$/, "", name) }
            /_s":|"iterations"|"stored_share"/ { key = $1; gsub(/[ "]/, "", key); value = $2; sub(/,$/, "", value)
                                                print name, key, value }'
}

# get POLICY FIELD: from the text of policies() in $answers.
get() {
    awk -v policy="$1" -v field="$2" '$1 == policy && $2 == field { printf "%.9g\n", $3; found = 1; exit }
        END { exit !found }' <<<"$answers"
}

calculate() {
    awk "BEGIN { printf \"${2:-%.9g}\", ($1) }"
}

declare -A rate slice
for workers in $sizes; do
    rate[$workers]=$(calculate "($workers - 1) * 1e6 / $(alltoall "$workers" "${workers}MB" loads)")
    slice[$workers]=$(alltoall "$workers" 352kB loads) # 0.1 * 32 samples of 110 kB
done
first=${sizes%% *}
checked=$(calculate "($first - 1) * 1e6 / $(alltoall "$first" "${first}MB" flow)")
echo "Rate of the exchange: pairwise all-to-all in blocks of 1 MB on the topology abci-v, by link loads; at $first"
echo "workers flow by flow $(calculate "$checked / 1e9" %.4g) GB/s, by loads $(calculate "${rate[$first]} / 1e9" %.4g) GB/s."

table() {
    local precision=$1 workers answers global local_s pass stall collective kind
    local file=$folder/epoch_$precision.tsv
    printf 'workers\tglobal, file system\tlocal\tpartial 0.03\tpartial 0.1\tpartial 0.3\tpaired 0.1\t%s\n' \
        'partial 0.1, all-to-all' >"$file"
    printf 'workers\titerations\tratio\tread_s\tslice_s\talltoall_s\tpass_s\tstall_s\tlocal_s\n' >"$folder/stall_$precision.tsv"
    printf '\n%s: seconds of an epoch, and what a slice of partial:0.1 takes beside the passes of an iteration, ms\n' \
        "$precision"
    printf '%7s %5s %8s %8s %8s %8s %8s %8s %6s  %8s  %7s %10s %8s %8s %8s\n' workers iter. global local p:0.03 \
        p:0.1 p:0.3 paired gl/loc GB/s slice all-to-all passes stall stored
    for workers in $sizes; do
        answers=$(policies "$precision" "$workers" "${rate[$workers]}")
        global=$(get global epoch_s) local_s=$(get local epoch_s)
        iterations=$(get local iterations)
        pass=$(calculate "$(get local fw_bw_s) / $iterations")
        stall=$(calculate "${slice[$workers]} > $pass ? ${slice[$workers]} - $pass : 0")
        # A slice by all workers together, each of which sends to all: as many start-ups as workers.
        collective=$(calculate "$local_s + $iterations * $stall + ${slice[$workers]}")
        printf '%s' "$workers" >>"$file"
        for kind in global local partial:0.03 partial:0.1 partial:0.3 paired:0.1; do
            printf '\t%s' "$(get $kind epoch_s)" >>"$file"
        done
        printf '\t%s\n' "$collective" >>"$file"
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$workers" "$iterations" "$(calculate "$global / $local_s")" \
            "$(get global read_s)" "$(calculate "$(get partial:0.1 exchange_total_s) / $iterations")" \
            "${slice[$workers]}" "$pass" "$stall" "$local_s" >>"$folder/stall_$precision.tsv"
        printf '%7d %5.0f %8.4g %8.4g %8.4g %8.4g %8.4g %8.4g %6.2f  %8.3g  %7.3f %10.3f %8.3f %8.3f %7.4f%%\n' \
            "$workers" "$iterations" "$global" "$local_s" "$(get partial:0.03 epoch_s)" "$(get partial:0.1 epoch_s)" \
            "$(get partial:0.3 epoch_s)" "$(get paired:0.1 epoch_s)" "$(calculate "$global / $local_s")" \
            "$(calculate "${rate[$workers]} / 1e9")" \
            "$(calculate "1e3 * $(get partial:0.1 exchange_total_s) / $iterations")" \
            "$(calculate "1e3 * ${slice[$workers]}")" "$(calculate "1e3 * $pass")" "$(calculate "1e3 * $stall")" \
            "$(calculate "100 * $(get partial:0.1 stored_share)")"
    done
    awk -v title="An epoch of ResNet-50 on ImageNet, abci-v, 32 samples per GPU, $precision (projected)" \
        -v xlabel=workers -v ylabel='seconds' -f "$here/plot.awk" "$file" >"$folder/epoch_$precision.svg"
}

# What the publication leads one to expect, judged from the table of stalls.
judge() {
    awk -F'\t' -v precision="$1" 'NR == 1 { next }
        { n++; last = $9; workers[n] = $1; iterations[n] = $2; ratio[n] = $3; share = $4 / ($7 * $2)
          if (n > 1 && ratio[n] < ratio[n - 1] - 1e-9) falls = 1
          if (n > 1 && share <= before) slower = 1
          before = share
          if ($5 > $7) own = own ? own : $1
          if ($8 > 0 && !stalled) { stalled = $1; at = $2 }
          if ($8 <= 0) free = $2 }
        END {
            printf "%s: reading from the file system %s with the workers beside the passes; global / local %s, %.2f at %d.\n",
                precision, slower ? "does NOT always grow" : "grows", falls ? "does NOT always grow" : "never falls",
                ratio[n], workers[n]
            printf "%s: five times at %d needs a file system that gives %.3g GB/s for files of 110 kB in random order.\n", precision,
                workers[n], 1281167 * 110e3 / (5 * last) / 1e9
            printf "%s: messages from worker to worker %s.\n", precision,
                own ? "stall from " own " workers on" : "never stall: a slice is shorter than the passes at every size"
            if (stalled)
                printf "%s: all-to-all slices stall from %d workers on, at %d iterations an epoch (not at %d).\n", precision,
                    stalled, at, free
            else
                printf "%s: all-to-all slices do not stall either.\n", precision
        }' "$folder/stall_$1.tsv"
}

for precision in fp32 fp16; do table $precision; done
echo
for precision in fp32 fp16; do judge $precision; done
echo "In fp16 every policy waits for decoding, 1,050 samples a second and GPU; a stall is counted against the passes alone."
echo "Stored by a worker with partial:0.1: the last column, (1 + Q) / M of the data set."
echo "The file system gives $shared, whatever the files and their order: that of abci-v is not published."
echo "tables and plots: $folder"
