# What the tests share that start several ranks with the command.
. "$SOURCE/tests/cli/common.sh"
# Open MPI itself leaks.
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-}
export OMP_NUM_THREADS=1

# small_gpt DROPOUT: writes gpt.yaml, with tied embeddings.
small_gpt() {
    cat >gpt.yaml <<YAML
paradl: model/1
name: gpt
extends: gpt2-124m
parameters: {layers: 2, hidden: 32, heads: 4, tokens: 26, vocabulary: 65, dropout: $1, bias: 1}
YAML
}

# pid_of JOB RANK: the process of a rank below the job; empty when it is gone.
pid_of() {
    local pid child
    for pid in $(pgrep -P "$1"); do
        if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then
            echo "$pid"
            return
        fi
        child=$(pid_of "$pid" "$2")
        [ -z "$child" ] || echo "$child"
    done
}
