#!/usr/bin/env bash
# A page in a real browser: it opens as a file, runs its script under its policy, and answers what its address asks with the
# numbers of the command. make test-report tries much more.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"
browser=$(command -v chromium || command -v google-chrome || true)
[ -n "$browser" ] && command -v node >/dev/null || { echo "skipped: there is no Chromium or no node"; exit 77; }
[ -e "$SOURCE/build/core/core.wasm.gz" ] || { echo "skipped: the core is not built (make report)"; exit 77; }

expect 0 plan --model lenet --system abci-v --devices 2 --json
cp out plan.json
expect 0 report plan.json -o page.html
node "$SOURCE/tests/report/ask.js" "$browser" "$PWD/profile" "file://$PWD/page.html#what=%7B%22devices%22%3A4%7D" \
    'globalThis.paradl && paradl.shown && document.querySelector("h2 + .difference") && document.querySelector("code.again").textContent + "\n" +
     document.querySelector(".document h2").textContent + "\n" + JSON.stringify(paradl.shown.plan.candidates)' >said || fail "the browser: $(cat said)"
has said "paradl plan --model lenet --system abci-v --devices 4"
has said "Plan: lenet on abci-v, 4 devices"
expect 0 plan --model lenet --system abci-v --devices 4 --json
python3 -c 'import json; assert json.load(open("out"))["candidates"] == json.loads(open("said").readlines()[2])' || fail "other numbers than the command"
finish
