#!/usr/bin/env bash
# Published claims about collectives and networks beside what the simulator gives.
#
#     examples/experiments/claims.sh C1|..|C9|all [--short] [--strict]
#
# $PARADL names the command (default: paradl on the path). --short takes small sizes, to see that all of it runs; the
# claims are about the full ones. A line with "MISSED" is outside the band given for it; with --strict the exit status
# is then 1. docs/simulation.md says what the claims are and which settings were fitted to them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
paradl=${PARADL:-paradl}
short=
strict=

# simulate FIELD ARGUMENT...: one number of one simulation.
simulate() {
    local field=$1 document
    shift
    document=$("$paradl" simulate --json "$@")
    awk -F'[:,]' -v field="\"$field\"" '$1 ~ field "$" { printf "%.12g\n", $2; found = 1; exit } END { exit !found }' \
        <<<"$document"
}

# number EXPRESSION [FORMAT]
number() {
    awk "BEGIN { printf \"${2:-%.4g}\", $1 }"
}

# saving NEW OLD: by how many percent NEW is below OLD.
saving() {
    number "100 * (1 - $1 / $2)" '%.1f'
}

# verdict VALUE LOW HIGH
verdict() {
    if [ -n "$short" ]; then
        echo "not judged: small sizes"
    elif awk "BEGIN { exit !($1 >= $2 && $1 <= $3) }"; then
        echo "within $2..$3"
    else
        echo "outside $2..$3: MISSED"
        touch "$failures"
    fi
}

heading() {
    printf '\n%s  %s\n' "$1" "$2"
}

. "$here/multi_leader.sh"
. "$here/set_a.sh"
. "$here/networks.sh"

failures=$(mktemp -u)
trap 'rm -f "$failures"' EXIT
wanted=()
for argument in "$@"; do
    case $argument in
    --short) short=yes ;;
    --strict) strict=yes ;;
    C[1-9]) wanted+=("$argument") ;;
    all) wanted+=(C1 C2 C3 C4 C5 C6 C7 C8 C9) ;;
    *)
        echo "claims.sh: unknown argument \"$argument\": expected C1 to C9, all, --short or --strict" >&2
        exit 2
        ;;
    esac
done
if [ ${#wanted[@]} -eq 0 ]; then
    echo "claims.sh: name a claim: C1 to C9, or all" >&2
    exit 2
fi
for claim in "${wanted[@]}"; do "claim_$claim"; done
if [ -n "$strict" ] && [ -e "$failures" ]; then exit 1; fi
