#!/usr/bin/env bash
# A small part of `make campaign`: kill -9, removed files, bit flips. Nothing is lost; and what is lost is noticed.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

campaign=(python3 -B "$SOURCE/tests/campaign/campaign.py")
PARADL_SHARE=$SOURCE/share "${campaign[@]}" --scale 0.005 --parts kill,flip --keep trials >table 2>err ||
    fail "something was lost: $(cat table)"
grep -Eq "^all +[0-9]{2,} .* 0$" table || fail "no table: $(cat table)"

# A command that loses a line of its log must be found out.
cat >forgetful <<'SH'
#!/bin/bash
case " $* " in *" --resume "*) [ ! -f run.jsonl ] || sed -i 2d run.jsonl ;; esac
exec "$REAL" "$@"
SH
chmod +x forgetful
if REAL=$PARADL PARADL=$PWD/forgetful "${campaign[@]}" --scale 0.001 --parts kill --keep trials >table 2>err; then
    fail "a log without its end passes: $(cat table)"
fi
finish
