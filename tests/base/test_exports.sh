#!/usr/bin/env bash
# The shared library shows exactly the names of cmake/exports.txt: each is declared in a public header of its module and
# exists, and what can be made can be destroyed.
set -euo pipefail
cd "$SOURCE"
[ -n "${PARADL-}" ] || { echo "skipped: not all modules are built"; exit 77; }
library=$(dirname "$PARADL")/libparadl.so

failures=0
fail() {
    echo "$1"
    failures=$((failures + 1))
}

mpi=()
IFS=: read -ra folders <<<"${MPI_INCLUDE-}"
for folder in "${folders[@]}"; do mpi+=(-isystem "$folder"); done

# "MODULE NAME" for every name of the list that this build has.
while read -r word rest; do
    case $word in
    '' | \#*) ;;
    \[*)
        module=${word#\[}
        module=${module%\]}
        skip=
        [[ $rest != mpi]* || ${#mpi[@]} -gt 0 ]] || skip=yes
        ;;
    *) [ -n "$skip" ] || echo "$module $word" ;;
    esac
done <cmake/exports.txt >"$TMPDIR/listed"

cut -d' ' -f2 "$TMPDIR/listed" | sort >"$TMPDIR/names"
nm -D --defined-only "$library" | awk '$2 ~ /[TDRB]/ { print $3 }' | grep -v '^_' | sort >"$TMPDIR/shown"
comm -3 "$TMPDIR/names" "$TMPDIR/shown" >"$TMPDIR/differ"
[ ! -s "$TMPDIR/differ" ] || fail "listed but not shown, or (indented) shown but not listed: $(cat "$TMPDIR/differ")"
[ "$(grep -cv '_names$' "$TMPDIR/names")" -le 160 ] || fail "more than 160 functions: who needs them?"

# A program that uses every name, by the headers alone.
{
    echo '#include <paradl/paradl.h>'
    [ ${#mpi[@]} -eq 0 ] || echo '#include <paradl/comm/comm.h>'
    echo 'const void *all[] = {'
    sed 's/.*/    (const void *)\&&,/' "$TMPDIR/names"
    echo '};'
    echo 'int main(void) { return all[0] == 0; }'
} >"$TMPDIR/all.c"
"${CC:-cc}" -std=c99 -Werror -Iinclude "${mpi[@]}" "$TMPDIR/all.c" "$library" -Wl,--allow-shlib-undefined \
    -o "$TMPDIR/all" || fail "a program cannot use all of the names"

while read -r module name; do
    grep -rqwF "$name" "include/paradl/$module" || fail "$name is not declared in include/paradl/$module"
    case $name in
    *_create) other=${name%_create}_destroy ;;
    *_open) other=${name%_open}_close ;;
    *) continue ;;
    esac
    grep -qxF "$other" "$TMPDIR/names" || fail "$name is shown, $other is not"
done <"$TMPDIR/listed"

if [ "$failures" -gt 0 ]; then
    echo "$failures failures"
    exit 1
fi
echo "the shared library shows what it should"
