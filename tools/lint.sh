#!/usr/bin/env bash
# tools/lint.sh JOBS SOURCE...: clang-tidy with the compile commands of the clang preset; fails where it finds something.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$1
shift

# The functions that tools/lint.h wraps are defined in sources that go without it.
defining='^pdl_status_t (pdl_error|pdl_yaml_error|pdl__onnx_fail)\('
tidy() {
    if grep -qE "$defining" "$1"; then
        clang-tidy --quiet -p build/clang "$1"
    else
        clang-tidy --quiet -p build/clang --extra-arg=-include --extra-arg="$PWD/tools/lint.h" "$1"
    fi 2>/dev/null # how many warnings of system headers were suppressed
}
export -f tidy
export defining
printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c 'tidy {}'
