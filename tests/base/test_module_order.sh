#!/usr/bin/env bash
# A module includes only itself and earlier modules, and every public header compiles alone, as C99 and as C++.
# A public header that the table below does not know is a failure: add it under its module.
set -euo pipefail
cd "$SOURCE"

order=(base model system topo coll plan oracle sim tensor comm data train report cli)

headers() {
    case $1 in
    base) echo status arena units yaml json csv share output random digest version log ;;
    model) echo model dataset ;;
    system) echo system ;;
    topo) echo contention topo ;;
    coll) echo coll sparse ;;
    plan) echo plan mesh program pipeline tape layout ;;
    oracle) echo oracle validate search orig published data_policy ;;
    sim) echo sim plan_sim ;;
    tensor) echo backend ;;
    comm) echo comm bench exchange ranks launch regions route watch ;;
    data) echo data store shuffle hide ;;
    train) echo optimizer safetensors checkpoint init session dry compile train aggregate calibrate ;;
    report) echo dry_report table report bench_report sim_report train_report ;;
    esac
}

declare -A position module_of
for i in "${!order[@]}"; do
    position[${order[i]}]=$i
    for header in $(headers "${order[i]}"); do module_of[$header]=${order[i]}; done
done

failures=0
fail() {
    echo "$1"
    failures=$((failures + 1))
}

# Prints "FILE:LINE included/header.h" for every include of ours; headers without a folder are a module's own.
includes() {
    grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*("|<paradl/)' src \
        --include='*.[ch]' --include='*.cu' --include='*.cuh' |
        sed -E 's/^([^:]+:[0-9]+):[^"<]*["<]([^">]+)[">].*/\1 \2/'
}

while read -r place included; do
    file=${place%:*}
    module=${file#src/}
    module=${module%%/*}
    if [ -z "${position[$module]+known}" ]; then
        fail "$place: src/$module is not a module"
        continue
    fi
    case $included in
    paradl/*)
        header=${included#paradl/}
        used=${module_of[${header%.h}]-}
        if [ -z "$used" ]; then
            fail "$place: <$included> is in no module: add it to the table in tests/base/test_module_order.sh"
            continue
        fi
        ;;
    */*) used=${included%%/*} ;;
    *) used=$module ;;
    esac
    if [ -z "${position[$used]+known}" ]; then
        fail "$place: \"$included\" is in no module"
    elif [ "${position[$used]}" -gt "${position[$module]}" ]; then
        fail "$place: $module must not use $used (\"$included\"), which comes after it"
    fi
done < <(includes)

# A header alone: nothing before it may be needed. That of the executor speaks of MPI, which may be missing.
mpi=()
IFS=: read -ra folders <<<"${MPI_INCLUDE-}"
for folder in "${folders[@]}"; do mpi+=(-isystem "$folder"); done
for path in include/paradl/*.h; do
    name=${path##*/}
    if [ -z "${module_of[${name%.h}]-}" ]; then
        fail "$path: in no module: add it to the table in tests/base/test_module_order.sh"
    fi
    [ "$name" = comm.h ] && [ ${#mpi[@]} -eq 0 ] && continue
    printf '#include <paradl/%s>\nint alone;\n' "$name" >"$TMPDIR/alone.c"
    cp "$TMPDIR/alone.c" "$TMPDIR/alone.cc"
    "${CC:-cc}" -std=c99 -Wall -Wextra -Wpedantic -Werror -Iinclude "${mpi[@]}" -fsyntax-only "$TMPDIR/alone.c" ||
        fail "$path: does not compile alone as C99"
    "${CXX:-g++}" -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iinclude "${mpi[@]}" -fsyntax-only "$TMPDIR/alone.cc" ||
        fail "$path: does not compile alone as C++"
done

if [ "$failures" -gt 0 ]; then
    echo "$failures failures"
    exit 1
fi
echo "module order and headers are as they should be"
