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

# check TEXT: a Python condition on the JSON document d in `out`.
check() {
    python3 -c 'import json, sys; d = json.load(open("out")); assert eval(sys.argv[1]), sys.argv[1]' "$1" 2>message ||
        fail "$1: $(tail -1 message)"
}

# refuse TEXT ARGUMENT...: paradl ends with status 2 and one message, which contains the text, and prints nothing else.
refuse() {
    local text=$1
    shift
    expect 2 "$@"
    has err "$text"
    [ "$(wc -l <err)" -eq 1 ] || fail "paradl $*: more than one line: $(cat err)"
    [ ! -s out ] || fail "paradl $*: a refusal printed something"
}

finish() {
    [ "$failures" -eq 0 ] || exit 1
    echo "all as expected"
}
