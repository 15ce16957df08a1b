#!/usr/bin/env bash
# tools/setup.sh [test] [report] [smaller] [browser] [bench] [fuzz] [format] [lint]: installs what the build needs and is missing, and what these tasks
# need on top. Silent when nothing is missing.
# On Debian and Ubuntu packages are installed as root or with sudo; elsewhere the missing ones are named.
set -euo pipefail

packages=(gcc libc6-dev cmake ninja-build pkg-config libyaml-dev libprotobuf-c-dev protobuf-c-compiler libonnx-dev
          openmpi-bin libopenmpi-dev libdnnl-dev libhwloc-dev zlib1g-dev libhdf5-dev libjpeg-dev libpng-dev)
# SimGrid and liburing are optional: installed where that is easy, not asked for elsewhere.
command -v apt-get >/dev/null && packages+=(libsimgrid-dev liburing-dev)
for task in "$@"; do
    case $task in
    test) packages+=(g++ clang python3 mandoc procps) ;;
    report) packages+=(clang lld wasi-libc libclang-rt-dev-wasm32) ;;
    smaller) packages+=(binaryen zopfli) ;; # the core of pages is 15 % smaller with them
    browser) packages+=(nodejs npm chromium) ;;
    # Without this library Debian's PyTorch computes with the reference BLAS, several times slower: no peer to compare with.
    bench) /usr/bin/python3 -c 'import torch' 2>/dev/null && packages+=(libopenblas0-openmp) ;;
    fuzz) packages+=(clang libclang-rt-dev) ;;
    format) packages+=(clang-format) ;;
    lint) packages+=(clang clang-tidy) ;;
    *) echo "setup: $task is not one of test, report, smaller, browser, bench, fuzz, format, lint" >&2 && exit 2 ;;
    esac
done

# What must exist for a package to count as installed, whoever installed it.
present() {
    case $1 in
    libc6-dev) echo '#include <stdio.h>' | gcc -E - ;;
    ninja-build) command -v ninja ;;
    protobuf-c-compiler) command -v protoc-c ;;
    libyaml-dev) pkg-config --exists yaml-0.1 ;;
    libprotobuf-c-dev) pkg-config --exists libprotobuf-c ;;
    openmpi-bin) command -v mpirun ;;
    libopenmpi-dev) command -v mpicc ;;
    libdnnl-dev) echo '#include <oneapi/dnnl/dnnl.h>' | gcc -E - ;;
    libhwloc-dev) pkg-config --exists hwloc ;;
    zlib1g-dev) pkg-config --exists zlib ;;
    libhdf5-dev) pkg-config --exists hdf5 ;;
    libjpeg-dev) pkg-config --exists libjpeg ;;
    libpng-dev) pkg-config --exists libpng ;;
    liburing-dev) pkg-config --exists liburing ;;
    libsimgrid-dev) pkg-config --exists simgrid ;;
    libclang-rt-dev) command -v clang && test -e "$(clang -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a)" ;;
    nodejs) command -v node ;;
    binaryen) command -v wasm-opt ;;
    lld) command -v wasm-ld ;;
    wasi-libc) test -e /usr/lib/wasm32-wasi/libc.a ;;
    libclang-rt-dev-wasm32) command -v clang && test -e "$(clang --target=wasm32-wasi -print-libgcc-file-name)" ;;
    python3) python3 -c 'import json, pty, xml.dom.minidom' ;; # python3-minimal has none of these
    procps) command -v pgrep ;;
    libopenblas0-openmp) ls /usr/lib/*/openblas-openmp/libopenblas.so.0 ;;
    libonnx-dev) test -e /usr/include/onnx/onnx.proto || test -e /usr/local/include/onnx/onnx.proto ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

missing=()
for package in "${packages[@]}"; do
    present "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "setup: please install what these Debian packages hold, then run make again: ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=()
elif command -v sudo >/dev/null; then
    as_root=(sudo)
else
    echo "setup: please run as root, then run make again: apt-get install ${missing[*]}" >&2
    exit 1
fi

# What apt-get prints is of interest only where it fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: installing ${missing[*]}" >&2
if ! { "${as_root[@]}" apt-get update -qq &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "setup: apt-get failed; the packages needed are: ${missing[*]}" >&2
    exit 1
fi
