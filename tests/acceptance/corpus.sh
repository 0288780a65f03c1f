#!/usr/bin/env bash
# Compacts every recorded session of $FORGE_CORPUS: cut at every tenth, by every strategy that the engine knows and by the
# default ladder, to 2 %, 10 % and 50 % of what is not pinned; and each once more as it grows, compacted at every tenth. Every
# compaction keeps the guarantees to which random conversations are held, and is legal by forge's validators for OpenAI, Anthropic
# and Gemini and by two judges that share no code with forge: the gate of the evaluator in $FORGE_EVAL, and mistral-common's
# validator, which is installed from PyPI.
#
#   FORGE_CORPUS=... FORGE_EVAL=... [FORGE_JOBS=2] tests/acceptance/corpus.sh
#
# What came of each recording is kept in target/corpus/, by what forge and this script are: a run that was broken off goes on where
# it was, and one of another forge begins anew. It is not part of the suite; a sample is (tests/it/sweep.rs).
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${FORGE_CORPUS:?names the folder of the recorded sessions}" "${FORGE_EVAL:?names the folder of the evaluator}"
export FORGE_CORPUS FORGE_EVAL

kept=target/corpus
mkdir -p "$kept"

if [ ! -x "$kept/venv/bin/python" ] || ! "$kept/venv/bin/python" -c 'import mistral_common' 2>/dev/null; then
    echo "== install mistral-common"
    python3 -m venv "$kept/venv" && "$kept/venv/bin/pip" install --quiet --disable-pip-version-check mistral-common
fi

echo "== build"
cargo build --quiet --release -p forge_tests --example corpus

echo "== compact and judge"
sweep=target/release/examples/corpus
same=$(cat "$sweep" tests/acceptance/corpus.py "$FORGE_EVAL/metrics.py" "$FORGE_EVAL/readers.py" "$FORGE_CORPUS/MANIFEST.json" | sha256sum | cut -c1-16)
"$kept/venv/bin/python" tests/acceptance/corpus.py run "$sweep" "$kept/$same"
