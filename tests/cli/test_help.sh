#!/usr/bin/env bash
# Every verb has a complete --help, --version names the build, and mistakes in verbs and options name the closest.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

expect 0 --help
for verb in model system data plan train eval predict calibrate validate topo simulate report; do has out "paradl $verb"; done
expect 0 --version
has out "paradl "
for part in libyaml oneDNN OpenMP hwloc zlib HDF5 libjpeg libpng; do has out "$part"; done

for verb in model system data plan train eval predict calibrate validate topo simulate report; do
    expect 0 $verb --help
    has out "usage: paradl $verb"
    [ ! -s err ] || fail "paradl $verb --help talks: $(cat err)"
done
for command in "model list" "model show" "model import" "system list" "system show" "data list" "data info" "data get" "topo list" "topo show"; do
    # shellcheck disable=SC2086
    expect 0 $command --help
    has out "usage: paradl $command"
    has out "--help"
done

# Everything the documents promise is in the help and in the manual page.
expect 0 plan --help
for option in model system pe data batch samples-per-pe strategy goal max-memory top explain formulas mode \
    data-policy exchange-bandwidth precision optimizer parameters spatial-until groups divisor output trace json; do
    has out "--$option"
    has "$SOURCE/docs/paradl.1" "Fl -$option"
done
# Where there are many options, --help shows those of every day by purpose, and --help-all shows the rest.
expect 0 train --help
for title in "Model and data:" "Parallelism and memory:" "Optimizer:" "Data policy" "Output:"; do has out "$title"; done
has out "--help-all shows"
[ "$(grep -cE '^  -' out)" -le 36 ] || fail "train --help shows $(grep -cE '^  -' out) options"
! grep -q -- --hide-threshold out || fail "train --help shows --hide-threshold"
expect 0 train --help-all
has out "--hide-threshold"
# One number under three names.
for name in --pe --devices -n; do
    expect 0 plan --model lenet --system abci-v $name 4 --data mnist --json
    grep -q '"pe": 4' out || fail "plan $name 4: $(head -c 200 out)"
done
# The options of train and eval are many: the help names them, and the manual page has to know each.
for verb in train eval predict; do
    expect 0 $verb --help-all
    options=$(grep -oE '^  --[a-z0-9-]+' out | sed 's/^ *--//')
    [ "$(wc -w <<<"$options")" -ge 10 ] || fail "$verb --help shows only: $options"
    for option in $options; do
        [ "$option" = help ] || has "$SOURCE/docs/paradl.1" "Fl -$option"
    done
done
for option in $(grep -oE '^    \{"[a-z0-9-]+"' "$SOURCE/src/cli/train/options.c" | tr -d ' {"'); do
    has "$SOURCE/docs/training.md" "--$option"
done
expect 0 calibrate --help
for option in output model pe threads quick quiet; do
    has out "--$option"
    has "$SOURCE/docs/paradl.1" "Fl -$option"
done
expect 0 validate --help
for option in output fit cross-validate parameters experiment write-parameters json; do
    has out "--$option"
    has "$SOURCE/docs/paradl.1" "Fl -$option"
done
topology_options="hosts hosts-per-switch dims leaf-hosts uplinks children parents cables shape valiant seed strides routing
    degree diameter optical-ports optical-bandwidth optical-min-bytes reconfigure link-bandwidth link-latency
    host-link-bandwidth host-link-latency duplex"
expect 0 topo show --help
for option in $topology_options switches-per-cabinet room format json; do
    has out "--$option"
    has "$SOURCE/docs/paradl.1" "Fl -$option"
done
expect 0 simulate --help
for option in topology collective algorithm bytes engine $topology_options jobs placement segments density common \
    stragglers fail-link fail-switch room gamma eager latency-factors bandwidth-factors reverse-share latency-share every-step \
    sweep-bytes sweep-hosts plot trace trace-ranks system parameters slow links json; do
    has out "--$option"
    has "$SOURCE/docs/paradl.1" "Fl -$option"
done

# Three ways to ask for help, two for the version.
expect 0 plan --help
cp out asked
expect 0 help plan
cmp -s asked out || fail "help plan differs from plan --help"
expect 0 model show --help
cp out asked
expect 0 help model show
cmp -s asked out || fail "help model show differs from model show --help"
expect 0 help
has out "paradl calibrate"
expect 2 help pln
has err 'did you mean plan?'
expect 2 help model sho
has err 'did you mean show?'
expect 0 --version
cp out asked
expect 0 -V
cmp -s asked out || fail "-V differs from --version"
for part in SimGrid protobuf-c CUDA; do has out "$part"; done

# A plan says what is required otherwise.
for verb in train simulate; do
    expect 0 $verb --help
    has out "(required without a plan)"
done
expect 0 plan --help
has out "(required)"

# No option is described twice in one list of the manual page.
awk '/^\.Bl/ { depth++ } /^\.El/ { for (k in seen) if (index(k, depth " ") == 1) delete seen[k]; depth-- }
    /^\.It Fl -/ { if (seen[depth " " $3]++) { print $3; bad = 1 } } END { exit bad }' "$SOURCE/docs/paradl.1" ||
    fail "docs/paradl.1 describes an option twice"

# What is installed: the documents that the help names, with examples, and links between them that lead somewhere.
cmake --install "$(dirname "$PARADL")" --prefix "$PWD/installed" >/dev/null || fail "cmake --install"
for file in README.md docs/data_formats.md docs/training.md examples/plan_model.c; do
    [ -e "installed/share/doc/paradl/$file" ] || fail "$file is not installed"
done

# Help names every strategy of the table.
expect 2 plan --model lenet --system local --pe 2 --strategy diagonal
names=$(sed -n 's/.*unknown strategy "diagonal": use //p' err | tr -d ',' | sed 's/ or / /')
[ "$(wc -w <<<"$names")" -ge 14 ] || fail "no list of strategies"
for verb in plan train; do
    expect 0 $verb --help-all
    for name in $names; do grep -qE "(^|[ ,])${name//+/[+]}([ ,)]|$)" out || fail "$verb --help-all does not name $name"; done
done

expect 2 pln
has err 'did you mean plan?'
expect 2
has err 'a verb is missing'
expect 2 model
has err 'expected list, show or import'
expect 2 model sho resnet50
has err 'did you mean show?'
expect 2 plan --modl resnet50
has err 'did you mean --model or --mode?'
expect 2 plan --model=resnet50 --system
has err '--system needs a value'
expect 2 model show resnet50 --json=yes
has err '--json takes no value'
expect 2 model show
has err 'usage: paradl model show MODEL'
expect 2 model show resnet50 vgg16
has err 'unexpected "vgg16"'

if command -v mandoc >/dev/null; then
    mandoc -Tlint "$SOURCE/docs/paradl.1" || fail "mandoc finds mistakes in docs/paradl.1"
fi
finish
