# What the tests of the command share. Each test sources it, calls the checks, and ends with `finish`.
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect STATUS ARGUMENT...: runs paradl and checks its exit status; output in out, messages in err.
expect() {
    local wanted=$1 got=0
    shift
    "$PARADL" "$@" >out 2>err || got=$?
    [ "$got" -eq "$wanted" ] || fail "paradl $*: exit status $got, expected $wanted: $(head -c 300 err)"
}

# has FILE TEXT: the file contains the text.
has() {
    grep -qF -- "$2" "$1" || fail "\"$2\" is not in $1: $(head -c 300 "$1")"
}

finish() {
    [ "$failures" -eq 0 ] || exit 1
    echo "all as expected"
}
