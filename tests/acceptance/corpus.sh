#!/usr/bin/env bash
# Compacts every recorded session of $FORGE_CORPUS: cut at every tenth, by every strategy that the engine knows and by the
# default ladder, to 2 %, 10 % and 50 % of what is not pinned. Every result is within its target or truthfully refused, and
# legal by forge's validators for OpenAI, Anthropic and Gemini and by two judges that share no code with forge: the gate of
# the evaluator in $FORGE_EVAL, and mistral-common's validator, which is installed from PyPI into a temporary folder.
#
#   FORGE_CORPUS=... FORGE_EVAL=... tests/acceptance/corpus.sh
#
# It is not part of the suite; a sample is (tests/it/sweep.rs).
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${FORGE_CORPUS:?names the folder of the recorded sessions}" "${FORGE_EVAL:?names the folder of the evaluator}"
export FORGE_CORPUS FORGE_EVAL

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "== install mistral-common"
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --disable-pip-version-check mistral-common

echo "== read what forge does not"
python3 tests/acceptance/corpus.py sessions >"$work/others.jsonl"

echo "== compact and judge"
cargo build --quiet --release -p forge_tests --example corpus
mapfile -t files < <(python3 tests/acceptance/corpus.py files)
target/release/examples/corpus "${files[@]}" --openai-lines "$work/others.jsonl" |
    "$work/venv/bin/python" tests/acceptance/corpus.py judge
