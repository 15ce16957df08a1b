#!/usr/bin/env bash
# What every command pays before it begins: CPU time of `paradl --version`, median of many, and the shared libraries it
# starts. The peer is a program that does nothing.
set -euo pipefail
python3 - "$PARADL --version" true <<'PROGRAM'
import os, shutil, statistics, subprocess, sys

for line in sys.argv[1:]:
    words = line.split()
    words[0] = shutil.which(words[0])
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    times = []
    for _ in range(101):
        usage = os.wait4(os.posix_spawn(words[0], words, os.environ, file_actions=quiet), 0)[2]
        times.append(1e3 * (usage.ru_utime + usage.ru_stime))
    libraries = len(subprocess.run(["ldd", words[0]], capture_output=True, text=True).stdout.splitlines())
    name = " ".join([os.path.basename(words[0])] + words[1:])
    print(f"{name:18} {statistics.median(times):6.2f} ms of CPU time, {libraries} shared libraries")
PROGRAM
