#!/usr/bin/env bash
# Installs what the build needs and is missing. Silent when nothing is missing.
# On Debian and Ubuntu packages are installed as root or with sudo; elsewhere the missing tools are named.
set -euo pipefail

packages=(gcc g++ clang libclang-rt-dev clang-format clang-tidy cmake ninja-build pkg-config libyaml-dev
          libprotobuf-c-dev protobuf-c-compiler libonnx-dev)

# What must exist for a package to count as installed, whoever installed it.
present() {
    case $1 in
    gcc | g++ | clang | clang-format | clang-tidy | cmake | pkg-config) command -v "$1" ;;
    ninja-build) command -v ninja ;;
    protobuf-c-compiler) command -v protoc-c ;;
    libyaml-dev) pkg-config --exists yaml-0.1 ;;
    libprotobuf-c-dev) pkg-config --exists libprotobuf-c ;;
    libclang-rt-dev) command -v clang && test -e "$(clang -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a)" ;;
    libonnx-dev) test -e /usr/include/onnx/onnx.proto || test -e /usr/local/include/onnx/onnx.proto ;;
    esac >/dev/null 2>&1
}

missing=()
for package in "${packages[@]}"; do
    present "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: missing: ${missing[*]}" >&2
if ! command -v apt-get >/dev/null; then
    echo "setup: this is not Debian or Ubuntu; please install what these packages hold and run make again" >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=()
elif command -v sudo >/dev/null; then
    as_root=(sudo)
else
    echo "setup: please run as root: apt-get install ${missing[*]}" >&2
    exit 1
fi

echo "setup: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
