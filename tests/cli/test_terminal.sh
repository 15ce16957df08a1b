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
finish
