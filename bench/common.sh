# What the benchmarks of training share.

# Debian's own interpreter has Debian's python3-torch, whatever other one comes first in PATH. Prints nothing without one.
find_python() {
    local candidate
    for candidate in ${PYTHON:-/usr/bin/python3 python3}; do
        if "$candidate" -c 'import torch' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

median() {
    sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.6g\n", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'
}

# A number of a JSON text on stdin, wherever it is; the first of that name.
number() {
    sed -nE '/^\{"summary"/d; s/.*"'"$1"'": ?([-+0-9.eE]+).*/\1/p'
}
