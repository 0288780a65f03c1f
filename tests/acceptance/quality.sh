#!/usr/bin/env bash
# Judges what compaction leaves of the recorded sessions in $FORGE_CORPUS: first the judge's own controls, then the table
# (tests/acceptance/quality/README.md). Arguments go to the judge, for example
#
#   FORGE_CORPUS=... tests/acceptance/quality.sh --sessions 12 --require 'statements>=0.98'
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${FORGE_CORPUS:?names the folder of the recorded sessions}"
[ -n "${FORGE_BINARY:-}" ] || cargo build --quiet --release -p forge_cli
python3 tests/acceptance/quality selftest --sessions 6
exec python3 tests/acceptance/quality run "$@"
