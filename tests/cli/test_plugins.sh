#!/usr/bin/env bash
# Libraries that may be missing are loaded when they are asked for: the command starts with few libraries and without
# plugins; what needs one says so in a line, and everything else works.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

built=$(dirname "$PARADL")/lib/paradl
[ -d "$built" ] || { echo "skipped: this build has no plugins"; exit 77; }

# What --version starts, and that what it does not start is named. Sanitizers bring libraries of their own.
libraries=$(ldd "$PARADL")
if ! grep -qE 'lib(asan|tsan|ubsan)' <<<"$libraries"; then
    count=$(wc -l <<<"$libraries")
    [ "$count" -lt 20 ] || fail "the command has $count libraries: $libraries"
    LD_DEBUG=files "$PARADL" --version 2>&1 >out | grep -o 'calling init: .*' | sort -u >started
    [ "$(wc -l <started)" -lt 20 ] || fail "--version starts $(cat started)"
    ! grep -qE 'simgrid|hdf5|jpeg|png|uring|hwloc|mpi|dnnl|cuda' started || fail "--version starts $(cat started)"
fi

# A plugin is given what it may call: a name of the library that it takes by itself would be missing where it is loaded.
for plugin in "$built"/*.so; do
    missing=$(nm -D --undefined-only "$plugin" | grep -oE 'pdl_[a-z_]+' || true)
    [ -z "$missing" ] || fail "$(basename "$plugin") calls $missing of the library"
done

mkdir -p empty photos/train/ant photos/train/bee photos/val/ant photos/val/bee
printf '\xff\xd8\xff\xe0 an image' | tee photos/train/{ant,bee}/1.jpg photos/val/{ant,bee}/1.jpg >/dev/null
mkdir -p drawings
cp -r photos/. drawings
for file in drawings/*/*/1.jpg; do
    rm "$file"
    printf '\x89PNG\r\n\x1a\n an image' >"${file%.jpg}.png"
done
echo "an array" >array.h5
simulate=(simulate --topology ring --hosts 4 --bytes 1MiB --algorithm ring)

# Without any: in a folder that has none.
export PARADL_LIB=$PWD/empty
expect 2 "${simulate[@]}" --engine simgrid
has err "--engine simgrid needs SimGrid: there is no $PWD/empty/libparadl-simgrid.so; install libsimgrid-dev"
expect 2 data info array.h5
has err "array.h5 needs HDF5: there is no $PWD/empty/libparadl-hdf5.so; install libhdf5-dev"
expect 2 data info photos
has err "1.jpg needs libjpeg: there is no $PWD/empty/libparadl-jpeg.so; install libjpeg-dev"
expect 2 data info drawings
has err "1.png needs libpng: there is no $PWD/empty/libparadl-png.so; install libpng-dev"
expect 2 train --model lenet --data synthetic --steps 1 --pe 2
has err "a run on several ranks needs MPI: there is no $PWD/empty/libparadl-ranks.so; install libopenmpi-dev and openmpi-bin"
[ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"
expect 2 coll bench
has err "needs MPI"
expect 0 --version
for part in SimGrid HDF5 libjpeg libpng liburing oneDNN hwloc MPI CUDA; do
    grep -qE "$part +not found" out || fail "--version does not say that $part is missing: $(cat out)"
done
expect 0 "${simulate[@]}"
expect 0 plan --model lenet --system abci-v --pe 2
expect 0 train --model lenet --data synthetic --steps 2 --batch 4 --threads 1
has err "oneDNN is missing"
expect 2 train --model lenet --data synthetic --steps 2 --batch 4 --threads 1 --precision bf16
has err "bf16 needs oneDNN: there is no $PWD/empty/libparadl-dnnl.so; install libdnnl-dev"
if [ -e "$built/libparadl-dnnl.so" ]; then
    mkdir one
    ln -s "$built/libparadl-dnnl.so" one
    PARADL_LIB=$PWD/one expect 0 train --model lenet --data synthetic --steps 2 --batch 4 --threads 2
fi

# A plugin whose library is not installed, and one of another version.
mkdir broken
echo 'int gone;' | "$CC" -shared -fPIC -x c - -o libgone.so
printf '%s\n' 'struct { const char *paradl; unsigned long bytes; const void *table; void *connect; } pdl__plugin_simgrid =' \
    '    {"0.0", 0, 0, 0};' | "$CC" -shared -fPIC -x c - -o broken/libparadl-simgrid.so
echo 'extern int gone; int *get(void) { return &gone; }' |
    "$CC" -shared -fPIC -x c - -x none libgone.so -o broken/libparadl-hdf5.so
echo 'extern int gone; int *get(void) { return &gone; }' |
    "$CC" -shared -fPIC -x c - -x none libgone.so -o broken/libparadl-dnnl.so
rm libgone.so
PARADL_LIB=$PWD/broken expect 2 "${simulate[@]}" --engine simgrid
has err "libparadl-simgrid.so belongs to another version of paradl"
PARADL_LIB=$PWD/broken expect 2 data info array.h5
has err "array.h5 needs HDF5: install libhdf5-dev (libgone.so: cannot open shared object file"
# Without the library of its plugin, as without the plugin: fp32 is computed by kernels of ours, on GPUs everything.
PARADL_LIB=$PWD/broken expect 0 train --model lenet --data synthetic --steps 2 --batch 4 --threads 1
has err "oneDNN is missing"
! grep -q "build paradl again" err || fail "the plugin is there: $(cat err)"
PARADL_LIB=$PWD/broken expect 2 train --model lenet --data synthetic --steps 2 --batch 4 --threads 1 --precision bf16
has err "bf16 needs oneDNN: install libdnnl-dev (libgone.so: cannot open shared object file"

# Installed, and moved: they are found beside the command.
unset PARADL_LIB
cmake --install "$(dirname "$PARADL")" --prefix "$PWD/first" >/dev/null || fail "cmake --install"
mv first moved
for plugin in "$built"/libparadl-*.so; do
    case $plugin in *_emulated.so) continue ;; esac # for tests
    [ -n "$(find moved -path "*/lib*/paradl/$(basename "$plugin")")" ] || fail "$plugin is not installed"
done
[ -z "$(find moved -name '*emulated*')" ] || fail "what is for tests is installed"
PARADL=$PWD/moved/bin/paradl
if [ -e "$built/libparadl-hdf5.so" ]; then
    LD_DEBUG=files "$PARADL" data info array.h5 >out 2>err && fail "array.h5 is taken for an HDF5 file"
    grep -qE "calling init: $PWD/moved/.*/libparadl-hdf5.so" err || fail "the installed plugin is not used"
    has err "array.h5: not an HDF5 file, or damaged"
fi
if [ -e "$built/libparadl-simgrid.so" ]; then
    expect 0 "${simulate[@]}" --engine simgrid
fi
finish
