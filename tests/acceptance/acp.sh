#!/usr/bin/env bash
# Drives `forge acp` by clients that others wrote: the SDKs for TypeScript and Python, and acpx, with a scripted model.
# Installs them from npm and PyPI into a temporary folder, so it is not part of the suite.
#
#   tests/acceptance/acp.sh [PATH_OF_FORGE] [PATH_OF_SCRIPTED_SERVER]
#
# KEEP=FOLDER keeps what was written, and finds what was installed there before.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(pwd)
forge=$(realpath "${1:-$root/target/release/forge}")
model=$(realpath "${2:-$root/target/release/examples/scripted_server}")
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT
export NO_COLOR=1 OPENAI_API_KEY=none FORGE="$forge"

fail() { echo "FAILED: $*" >&2; exit 1; }
# play SCRIPT: the scripted model, by which OPENAI_BASE_URL leads.
play() {
    "$model" <(printf '%s' "$1") > "$work/model.out" 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do grep -q base_url "$work/model.out" && break; sleep 0.1; done
    OPENAI_BASE_URL=$(sed -n 's/^base_url: //p' "$work/model.out")
    export OPENAI_BASE_URL
}
# fresh: an empty home and a project of three files.
fresh() {
    rm -rf "$work/project" "$work/home"
    mkdir -p "$work/project" "$work/home"
    export HOME=$work/home
    cd "$work/project"
    git init -q
    printf 'closed on Monday\n' > notes.txt
    printf 'agents: [{ id: one, model: "openai:scripted", tools: [read, write] }]\n' > forge.yaml
    "$forge" trust > /dev/null
}
script='[
  {"calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]},
  {"calls": [{"name": "write", "arguments": {"path": "answer.txt", "content": "Monday\n"}}]},
  {"text": "On Monday."},
  {"text": "Still Monday."}
]'

echo "== install"
[ -d "$work/node_modules/acpx" ] ||
    npm i --silent --prefix "$work" @agentclientprotocol/sdk@2.4.0 acpx@0.19.1
[ -d "$work/venv" ] || {
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" -q install agent-client-protocol==0.12.1
}
cp "$root"/tests/acceptance/acp/*.mjs "$work/"

echo "== the SDK for TypeScript"
fresh
play "$script"
node "$work/client.mjs" || fail "the client for TypeScript"
[ "$(cat answer.txt)" = Monday ] || fail "the file was not written"

echo "== the SDK for Python"
fresh
play "$script"
"$work/venv/bin/python" "$root/tests/acceptance/acp/client.py" || fail "the client for Python"
[ "$(cat answer.txt)" = Monday ] || fail "the file was not written"

echo "== plans, and two folders"
fresh
sed -i 's/tools: \[/tools: [steps, /' forge.yaml
"$forge" trust > /dev/null
mkdir -p "$work/other"
printf 'the other folder\n' > "$work/other/notes.txt"
cp forge.yaml "$work/other/forge.yaml"
"$forge" trust "$work/other" > /dev/null
play '[
  {"calls": [{"name": "steps", "arguments": {"steps": [{"step": "Do it", "status": "in_progress"}]}}]},
  {"calls": [{"name": "steps", "arguments": {"steps": [{"step": "Do it", "status": "completed"}]}}]},
  {"text": "Done."},
  {"text": "1. Read it\n2. Write it\n"},
  {"calls": [{"name": "write", "arguments": {"path": "answer.txt", "content": "Monday\n"}}]},
  {"text": "Written."},
  {"calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]},
  {"text": "The other one."}
]'
OTHER_FOLDER=$work/other node "$work/plans.mjs" || fail "plans and folders"
[ "$(cat answer.txt)" = Monday ] || fail "the file was not written"

echo "== the terminal of an editor"
fresh
sed -i 's/tools: \[/tools: [shell, /' forge.yaml
"$forge" trust > /dev/null
play '[
  {"calls": [{"name": "shell", "arguments": {"command": "echo ran with ${OPENAI_API_KEY:-no key}"}}]},
  {"text": "It ran."}
]'
"$work/venv/bin/python" "$root/tests/acceptance/acp/terminal.py" || fail "the terminal"

echo "== acpx"
fresh
play "$script"
"$work/node_modules/.bin/acpx" --agent "$forge acp" --cwd "$work/project" --approve-all --format text \
    exec "When was it closed?" > "$work/acpx.out" 2>&1 || { cat "$work/acpx.out"; fail "acpx"; }
grep -q "On Monday." "$work/acpx.out" || { cat "$work/acpx.out"; fail "acpx shows no answer"; }
[ "$(cat answer.txt)" = Monday ] || fail "the file was not written"
echo "all is well"
