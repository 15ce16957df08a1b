#!/usr/bin/env bash
# On a terminal the best line stands out and no line of help is wider than the window; NO_COLOR is respected.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

if ! python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
    echo "skipped: this system has no pseudo-terminals (/dev/pts is not mounted)"
    exit 77
fi

cat >terminal.py <<'PY'
import fcntl, os, pty, struct, sys, termios

reader, writer = pty.openpty()
fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
child = os.fork()
if child == 0:
    os.close(reader)
    os.dup2(writer, 1)
    os.execvp(sys.argv[1], sys.argv[1:])
os.close(writer)
while True:
    try:
        data = os.read(reader, 4096)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
PY
export TERM=xterm
unset NO_COLOR
request=(plan --model resnet50 --system abci-v --pe 128 --top 1)

python3 terminal.py "$PARADL" "${request[@]}" >out
has out $'\033[1m'
has out $'\033[0m'
NO_COLOR=1 python3 terminal.py "$PARADL" "${request[@]}" >out
! grep -q $'\033' out || fail "colours in spite of NO_COLOR"
TERM=dumb python3 terminal.py "$PARADL" "${request[@]}" >out
! grep -q $'\033' out || fail "colours on a dumb terminal"

python3 terminal.py "$PARADL" plan --help >out
sed -n '/^  --model M/,$p' out | awk 'length > 70 { print; bad = 1 } END { exit bad }' ||
    fail "help is wider than the window"

# Progress is shown on a terminal after a second; Ctrl-C ends with the best so far, which is not certified. A search that is done by then
# has all to say.
cat >interrupt.py <<'PY'
import os, pty, signal, sys

reader, writer = pty.openpty()
child = os.fork()
if child == 0:
    os.close(reader)
    os.dup2(writer, 2)
    os.execvp(sys.argv[1], sys.argv[1:])
os.close(writer)
shown = b""
while b"searching:" not in shown:
    try:
        shown += os.read(reader, 4096)
    except OSError:
        break
if b"searching:" in shown:
    os.kill(child, signal.SIGINT)
    print("interrupted")
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
PY
python3 interrupt.py "$PARADL" plan --model gpt3-175b --system selene --devices 4096 --batch 4096 --precision bf16 \
    --exhaustive --top 1 >out
has out "best: "
if grep -q interrupted out; then
    has out "not certified: the search was ended before all configurations were looked at"
    has out "not looked at: not certified"
else
    has out "is certified"
fi
finish
