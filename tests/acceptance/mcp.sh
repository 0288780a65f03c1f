#!/usr/bin/env bash
# Drives `forge run` and `forge doctor` against MCP servers that others wrote: filesystem and everything (npm), git and time (PyPI), over
# standard input and output and over HTTP, with a scripted model; one of them is killed in the middle of a call.
# Installs them into a temporary folder, so it needs npm and pip; it is not part of the suite.
#
#   tests/acceptance/mcp.sh [PATH_OF_FORGE] [PATH_OF_SCRIPTED_SERVER]
#
# KEEP=FOLDER keeps what was written, and finds what was installed there before.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(pwd)
forge=${1:-$root/target/release/forge}
model=${2:-$root/target/release/examples/scripted_server}
for program in "$forge" "$model"; do
    [ -x "$program" ] || {
        echo "there is no $program: run 'cargo build --release && cargo build --release -p forge_tests --example scripted_server'" >&2
        exit 2
    }
done

work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT
export HOME=$work NO_COLOR=1 OPENAI_API_KEY=none PLANTED=sk-planted-for-the-server

fail() { echo "FAILED: $*" >&2; exit 1; }
# expect TEXT FILE: the file holds the text.
expect() { grep -qF -- "$1" "$2" || { cat "$2" >&2; fail "\`$1\` is not in $2"; }; }
# reject TEXT FILE: the file does not hold it.
reject() { ! grep -qF -- "$1" "$2" || { cat "$2" >&2; fail "\`$1\` is in $2"; }; }
# play SCRIPT: the scripted model, by which OPENAI_BASE_URL leads.
play() {
    : > model.out
    "$model" "$1" > model.out 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do grep -q base_url model.out && break; sleep 0.1; done
    OPENAI_BASE_URL=$(sed -n 's/^base_url: //p' model.out)
    export OPENAI_BASE_URL
}

echo "== install"
(cd "$work" && [ -x node_modules/.bin/mcp-server-everything ] ||
    npm i --silent --prefix "$work" @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-everything)
[ -x "$work/venv/bin/mcp-server-git" ] || {
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" -q install mcp-server-git mcp-server-time
}

run=$work/run
rm -rf "$run"
mkdir -p "$run/data"
cd "$run"
git init -q data && git -C data -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m "Begin the log of the dome"
echo "the dome was closed on the third night" > data/notes.txt

port=$((20000 + RANDOM % 20000))
PORT=$port "$work/node_modules/.bin/mcp-server-everything" streamableHttp > http.log 2>&1 &
pids+=($!)
for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

cat > forge.yaml <<EOF
mcp_servers:
  files: { command: $work/node_modules/.bin/mcp-server-filesystem, args: [data] }
  every: { command: $work/node_modules/.bin/mcp-server-everything, env: { TOKEN: \$PLANTED } }
  far: { url: http://127.0.0.1:$port/mcp }
  log: { command: $work/venv/bin/mcp-server-git, args: [--repository, data] }
  clock: { command: $work/venv/bin/mcp-server-time, args: [--local-timezone, UTC] }
permissions: { 'files__*': allow, 'every__*': allow, far__echo: allow, log__git_log: allow, clock__convert_time: allow }
agents:
  - id: worker
    model: openai:scripted
    tools: [list, 'files__*', 'every__*', far__echo, log__git_log, clock__convert_time]
EOF

echo "== doctor"
"$forge" config check > check.out 2>&1 || { cat check.out; fail "the configuration is refused"; }
"$forge" doctor --store none > doctor.out 2>&1 || true
for name in files every far log clock; do
    expect "✓ MCP server $name: " doctor.out
done
grep "MCP server" doctor.out

echo "== one call of each"
cat > calls.json <<EOF
[
  {"calls": [
    {"name": "files__read_text_file", "arguments": {"path": "$run/data/notes.txt"}},
    {"name": "files__read_text_file", "arguments": {"path": "/etc/passwd"}},
    {"name": "every__echo", "arguments": {"message": "from every"}},
    {"name": "far__echo", "arguments": {"message": "from afar"}},
    {"name": "log__git_log", "arguments": {"repo_path": "$run/data"}},
    {"name": "clock__convert_time", "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}}
  ]},
  {"calls": [
    {"name": "every__get-env", "arguments": {}},
    {"name": "every__get-tiny-image", "arguments": {}},
    {"name": "every__trigger-long-running-operation", "arguments": {"duration": 1, "steps": 2}},
    {"name": "every__get-sum", "arguments": {"a": "one"}}
  ]},
  {"text": "done"}
]
EOF
play calls.json
"$forge" run --store none --record session.json "work" > run.out 2> run.err || { cat run.err; fail "the run failed"; }
expect done run.out
for text in "the dome was closed on the third night" "Access denied" "Echo: from every" "Echo: from afar" "Begin the log of the dome" \
    "21:00" "What follows is what the MCP server" "image/png" "Long running operation completed"; do
    expect "$text" session.json
done
reject "$PLANTED" session.json
reject "$PLANTED" run.err
expect "… every__trigger-long-running-operation 1/2" run.err
# Whatever was started has ended.
sleep 1
! pgrep -f "$work/node_modules/.bin/mcp-server-filesystem data" > /dev/null || fail "a server is left behind"

echo "== one is killed in the middle of a call"
cat > kill.json <<EOF
[
  {"calls": [{"name": "every__trigger-long-running-operation", "arguments": {"duration": 60, "steps": 60}}]},
  {"calls": [{"name": "every__echo", "arguments": {"message": "back again"}}]},
  {"text": "done"}
]
EOF
play kill.json
"$forge" run --store none --record killed.json "work" > run.out 2> run.err &
runner=$!
for _ in $(seq 300); do grep -q "long-running-operation 1/60" run.err && break; sleep 0.1; done
expect "long-running-operation 1/60" run.err
# The server is a child of forge, in a group of its own.
for child in $(pgrep -P "$runner"); do
    tr '\0' ' ' < "/proc/$child/cmdline" | grep -q everything && kill -9 "$child"
done
wait "$runner" || { cat run.err; fail "the run failed"; }
for text in "ended before it had answered this call" "Echo: back again"; do expect "$text" killed.json; done
expect "the MCP server \`every\` was started again" run.err
[ "$(grep -o 'trigger-long-running-operation' killed.json | wc -l)" -le 2 ] || fail "the call was made again"

echo "== one is interrupted in the middle of a call"
play kill.json
"$forge" run --store none "work" > run.out 2> run.err &
runner=$!
for _ in $(seq 300); do grep -q "long-running-operation 1/60" run.err && break; sleep 0.1; done
children=$(pgrep -P "$runner")
kill -INT "$runner"
code=0; wait "$runner" || code=$?
[ "$code" = 130 ] || fail "it ended with $code"
sleep 1
for child in $children; do
    [ ! -e "/proc/$child" ] || fail "the server $child is left behind"
done

echo "all is well"
