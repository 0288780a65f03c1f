#!/usr/bin/env bash
# Drives `forge run` against OpenAI-compatible servers that others wrote: aimock (npm) and llmock (PyPI).
# Installs both into a temporary folder, so it needs npm and pip; it is not part of the suite.
#
#   tests/acceptance/real_servers.sh [PATH_OF_FORGE]
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(pwd)
forge=${1:-$root/target/release/forge}
[ -x "$forge" ] || { echo "there is no $forge: run 'cargo build --release' first" >&2; exit 2; }

work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
export HOME=$work NO_COLOR=1

fail() { echo "FAILED: $*" >&2; exit 1; }
# expect TEXT FILE: the file holds the text.
expect() { grep -qF -- "$1" "$2" || { cat "$2" >&2; fail "\`$1\` is not in $2"; }; }
# wait_for PORT: something listens there.
wait_for() {
    for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.1; done
    fail "nothing listens on port $1"
}
# run FOLDER_OF_OUTPUT ARGUMENTS...: forge run in the example workspace.
run() {
    local out=$1
    shift
    (cd "$root/tests/fixtures/workspace" && "$forge" run "$@" >"$out.out" 2>"$out.err")
}

echo "== install aimock and llmock"
(cd "$work" && npm init -y >/dev/null 2>&1 && npm install --silent --no-fund --no-audit @copilotkit/aimock@1.43.0 >/dev/null)
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --disable-pip-version-check llmock==0.2.2

echo "== aimock: a tool loop with parallel calls, streamed"
"$work/node_modules/.bin/llmock" -p 4711 -f "$root/tests/acceptance/aimock" >"$work/aimock.log" 2>&1 &
pids+=($!)
wait_for 4711
OPENAI_BASE_URL=http://127.0.0.1:4711/v1 OPENAI_API_KEY=none \
    run "$work/aimock" --model openai:gpt-4o-mini "Where are the rules?" --record "$work/aimock.json"
expect "I look first." "$work/aimock.out"
expect "The rules are in rules.md" "$work/aimock.out"
expect '→ read {"path":"rules.md"}' "$work/aimock.err"
expect "2 calls" "$work/aimock.err"
expect "The dome closes when the wind" "$work/aimock.json"
"$forge" replay "$work/aimock.json" --json >"$work/aimock.replay"
expect '"calls": 2' "$work/aimock.replay"

echo "== llmock: its own tool call, its window, its verdict on us"
"$work/venv/bin/llmock" serve --port 4712 --tool-mode auto --context-window 3000 >"$work/llmock.log" 2>&1 &
pids+=($!)
wait_for 4712
cat >"$work/llmock.yaml" <<'YAML'
providers:
  mock: { kind: openai, base_url: "http://127.0.0.1:4712/v1", api_key_env: MOCK_KEY }
models:
  mock:gpt-4o: { window: 3000, max_output: 300 }
agents:
  - { id: reader, model: "mock:gpt-4o", tools: [read, list], max_iterations: 30, system_prompt: Read the files. }
YAML
MOCK_KEY=sk-test run "$work/llmock" --config "$work/llmock.yaml" "Where are the rules?"
expect "→ read" "$work/llmock.err"
expect "2 calls" "$work/llmock.err"
"$work/venv/bin/python" - <<'PY'
import json, urllib.request
verdict = json.load(urllib.request.urlopen("http://127.0.0.1:4712/_llmock/verdict"))
print("verdict:", json.dumps(verdict))
raise SystemExit(0 if verdict["passed"] else 1)
PY

echo "== llmock: a prompt over its window is refused, in its own words"
if MOCK_KEY=sk-test run "$work/over" --config "$work/llmock.yaml" --model mock:gpt-4 "$(printf 'word %.0s' {1..4000})"; then
    fail "a prompt over the window was answered"
fi
expect "error:" "$work/over.err"
tail -n 1 "$work/over.err"

echo "== all is well"
