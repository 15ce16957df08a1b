#!/usr/bin/env bash
# A module includes only itself and earlier modules, and of these only public headers; every public header compiles alone
# and with all others, as C99 and as C++; no type name exists twice; no folder has more than 30 files.
set -euo pipefail
cd "$SOURCE"

order=(base model system topo coll plan tensor program oracle sim comm data train validate report cli)
declare -A position
for i in "${!order[@]}"; do position[${order[i]}]=$i; done

# Private headers that another module includes all the same: none may be added, and each is to go.
shared="train program/lower/graph.h"

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
    paradl/*/*)
        used=${included#paradl/}
        used=${used%%/*}
        ;;
    paradl/*)
        fail "$place: <$included> is for users: include the headers that are needed"
        continue
        ;;
    onnx.pb-c.h) continue ;; # generated
    */*) used=${included%%/*} ;;
    *)
        fail "$place: \"$included\" is named without its folder"
        continue
        ;;
    esac
    case $included in paradl/*) ;; *)
        # The headers in src/base are the library's; those of other modules are their own, but for these.
        if [ "$used" != "$module" ] && [ "$used" != base ] && ! grep -qxF "$module $included" <<<"$shared"; then
            fail "$place: \"$included\" is private to $used: declare what $module needs in include/paradl/$used/"
        fi
        ;;
    esac
    if [ -z "${position[$used]+known}" ]; then
        fail "$place: \"$included\" is in no module"
    elif [ "${position[$used]}" -gt "${position[$module]}" ]; then
        fail "$place: $module must not use $used (\"$included\"), which comes after it"
    fi
done < <(includes)

# Every public header is in a folder of its module and in the module's umbrella header.
for path in include/paradl/*/*.h; do
    name=${path#include/paradl/}
    [ -n "${position[${name%%/*}]+known}" ] || fail "$path: in no module"
    [ "$name" = comm/comm.h ] && continue
    grep -qF "<paradl/$name>" "include/paradl/${name%%/*}.h" || fail "$path: not in include/paradl/${name%%/*}.h"
done

# A header alone, and all of them together. That of the executor speaks of MPI, which may be missing.
mpi=()
IFS=: read -ra folders <<<"${MPI_INCLUDE-}"
for folder in "${folders[@]}"; do mpi+=(-isystem "$folder"); done
compiles() {
    cp "$1" "$TMPDIR/alone.cc"
    "${CC:-cc}" -std=c99 -Wall -Wextra -Wpedantic -Werror -Iinclude "${mpi[@]}" -fsyntax-only "$1" ||
        fail "$2 as C99"
    "${CXX:-g++}" -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iinclude "${mpi[@]}" -fsyntax-only "$TMPDIR/alone.cc" ||
        fail "$2 as C++"
}
printf '#include <paradl/paradl.h>\nint together;\n' >"$TMPDIR/together.c"
[ ${#mpi[@]} -eq 0 ] || printf '#include <paradl/comm/comm.h>\n' >>"$TMPDIR/together.c"
compiles "$TMPDIR/together.c" "all public headers do not compile together"
for path in include/paradl/*/*.h; do
    name=${path#include/paradl/}
    [ "$name" = comm/comm.h ] && [ ${#mpi[@]} -eq 0 ] && continue
    printf '#include <paradl/%s>\nint alone;\n' "$name" >"$TMPDIR/alone.c"
    compiles "$TMPDIR/alone.c" "$path: does not compile alone"
done

# A type has one name, and a name one type.
while read -r name; do
    fail "the type $name is defined more than once"
done < <(grep -rhoE '^\} pdl_[a-z_0-9]+_t;' include src | sort | uniq -d)

# A folder that is looked through at a glance.
while read -r folder; do
    count=$(find "$folder" -maxdepth 1 -type f | wc -l)
    [ "$count" -le 30 ] || fail "$folder has $count files: give the module rooms"
done < <(find src include -type d)

if [ "$failures" -gt 0 ]; then
    echo "$failures failures"
    exit 1
fi
echo "module order and headers are as they should be"
