#!/usr/bin/env bash
# Runs one shell test in a fresh folder: TMPDIR names it and it is the working directory. The test finds the
# command in $PARADL and the source tree in $SOURCE.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
TMPDIR=$scratch bash "$1"
