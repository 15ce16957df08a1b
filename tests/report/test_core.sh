#!/usr/bin/env bash
# The core that pages carry answers as the command does: documents to one unit in the last place, tables to the byte.
set -euo pipefail
command -v node >/dev/null || { echo "skipped: there is no node"; exit 77; }
[ -e "$SOURCE/build/core/core.wasm.gz" ] || { echo "skipped: the core is not built (make report)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
node "$SOURCE/tests/report/core.js" "$PARADL" "$scratch" "${EXTENT:-short}"
