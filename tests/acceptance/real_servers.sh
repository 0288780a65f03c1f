#!/usr/bin/env bash
# Drives `forge run` against servers that others wrote: aimock (npm) in five protocols, with faults, chaos and compactions; llmock
# (PyPI), which enforces a window and judges its clients; and a llama.cpp server (from its source package on PyPI) on a
# model of random weights, with a real tokenizer, a real window and a real prefix cache.
# Installs all of them into a temporary folder, so it needs npm, pip and a C++ compiler; it is not part of the suite.
#
#   tests/acceptance/real_servers.sh [PATH_OF_FORGE]
#
# LLAMA_SERVER names a llama-server that is built already (building takes half an hour on two cores), SKIP_LLAMA=1 leaves it
# out. KEEP=FOLDER keeps what was written.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(pwd)
forge=${1:-$root/target/release/forge}
[ -x "$forge" ] || { echo "there is no $forge: run 'cargo build --release' first" >&2; exit 2; }

work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT
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
    (cd "$root/tests/fixtures/workspace" && "$forge" run --trust "$@" >"$out.out" 2>"$out.err")
}

# unlike TEXT FILE: the file does not hold the text.
unlike() { ! grep -qF -- "$1" "$2" || { cat "$2" >&2; fail "\`$1\` is in $2"; }; }
# answered FILE: how many of the notes are answers, their largest prompt, and the share of it that was cached.
summed() {
    python3 - "$1" <<'PY'
import json, sys
notes = [json.loads(line) for line in open(sys.argv[1])]
answers = [note for note in notes if "prompt" in note]
refusals = [note for note in notes if "error" in note]
print(f"{len(answers)} answers, {len(refusals)} refusals, largest prompt {max(a['prompt'] for a in answers)}, "
      f"{sum(a['cached'] for a in answers)} of {sum(a['prompt'] for a in answers)} prompt tokens cached")
for at, (before, after) in enumerate(zip(answers, answers[1:])):
    if after["messages"] < before["messages"]:
        then = answers[at + 2] if at + 2 < len(answers) else None
        shown = [before, after] + ([then] if then else [])
        print("compaction:", "; then ".join(f"{a['messages']} messages, {a['cached']} of {a['prompt']} cached" for a in shown))
PY
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
expect '→ Read(rules.md)' "$work/aimock.err"
expect "2 calls" "$work/aimock.err"
expect "The dome closes when the wind" "$work/aimock.json"
"$forge" replay "$work/aimock.json" --json >"$work/aimock.replay"
expect '"calls": 2' "$work/aimock.replay"

echo "== aimock: the same task in each protocol, through a 429, a 529, a stream that is cut and a connection that breaks"
port=4721
for kind in openai responses anthropic ollama gemini; do
    # Each has a server of its own: which fault comes next is counted there.
    "$work/node_modules/.bin/llmock" -p $port -f "$root/tests/acceptance/aimock_faults" >"$work/aimock.$kind.log" 2>&1 &
    pids+=($!)
    wait_for $port
    version=v1; [ $kind != gemini ] || version=v1beta
    cat >"$work/$kind.yaml" <<YAML
providers:
  mock: { kind: $kind, base_url: "http://127.0.0.1:$port/$version" }
models:
  mock:gpt-4o: { window: 30000, max_output: 300 }
agents:
  - { id: reader, model: "mock:gpt-4o", tools: [read, list], max_iterations: 9, system_prompt: Read the files. }
YAML
    run "$work/faults.$kind" --config "$work/$kind.yaml" "Where are the rules?" --record "$work/faults.$kind.json"
    [ "$(tail -n 1 "$work/faults.$kind.out")" = "The rules are in rules.md; one file a night is under nights/." ] ||
        fail "$kind: the answer is not the last word"
    for words in "slow down; trying again in" "(status 529): Overloaded; trying again" "broke during the reply" "2 calls"; do
        expect "$words" "$work/faults.$kind.err"
    done
    # What broke off is no part of the conversation.
    unlike "is cut by" "$work/faults.$kind.json"
    echo "$kind: $(grep -c '^note:' "$work/faults.$kind.err") faults survived, $(tail -n 1 "$work/faults.$kind.err")"
    port=$((port + 1))
done

echo "== aimock: twenty-five calls in a window of 6,000 tokens, in each protocol"
port=4781
for kind in openai responses anthropic ollama gemini; do
    "$work/node_modules/.bin/llmock" -p $port -f "$root/tests/acceptance/aimock_nights" >"$work/nights.$kind.log" 2>&1 &
    pids+=($!)
    wait_for $port
    sed "s/:47[0-9]*/:$port/; s/window: 30000/window: 6000/; s/max_iterations: 9/max_iterations: 40/" "$work/$kind.yaml" \
        >"$work/nights.$kind.yaml"
    run "$work/nights.$kind" --config "$work/nights.$kind.yaml" "Read every night."
    expect "All nights are read." "$work/nights.$kind.out"
    expect "25 calls" "$work/nights.$kind.err"
    [ "$(grep -c compacted "$work/nights.$kind.err")" -ge 5 ] || fail "$kind: fewer than five compactions"
    echo "$kind: $(grep -E '^25 calls' "$work/nights.$kind.err")"
    port=$((port + 1))
done

echo "== aimock: chaos, 12 runs in each protocol"
"$work/node_modules/.bin/llmock" -p 4731 -f "$root/tests/acceptance/aimock" --journal-max 0 --chaos-drop 0.08 \
    --chaos-malformed 0.08 --chaos-disconnect 0.08 --chaos-ratelimit 0.04 >"$work/chaos.log" 2>&1 &
pids+=($!)
wait_for 4731
for kind in openai responses anthropic ollama gemini; do
    sed "s/:47[0-9]*/:4731/" "$work/$kind.yaml" >"$work/chaos.$kind.yaml"
    done_=0
    for n in $(seq 12); do
        # A run ends well, or with the provider's own error where even its retries met chaos; never otherwise.
        code=0
        run "$work/chaos" --config "$work/chaos.$kind.yaml" "Where are the rules?" --record "$work/chaos.$kind.$n.json" || code=$?
        if [ $code = 0 ]; then
            done_=$((done_ + 1))
            [ "$(tail -n 1 "$work/chaos.out")" = "The rules are in rules.md; one file a night is under nights/." ] ||
                fail "$kind $n: another answer"
            "$forge" replay "$work/chaos.$kind.$n.json" --json >/dev/null || fail "$kind $n: the record does not replay"
        else
            grep -q "error: " "$work/chaos.err" || { cat "$work/chaos.err" >&2; fail "$kind $n: exit $code without an error"; }
        fi
        cat "$work/chaos.err" >>"$work/chaos.$kind.err"
    done
    [ $done_ -ge 10 ] || fail "$kind: only $done_ of 12 runs came to an end"
    echo "$kind: $done_ of 12 runs done, $(grep -c 'again' "$work/chaos.$kind.err") times asked again"
done

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
expect "→ Read" "$work/llmock.err"
expect "2 calls" "$work/llmock.err"
"$work/venv/bin/python" - <<'PY'
import json, urllib.request
verdict = json.load(urllib.request.urlopen("http://127.0.0.1:4712/_llmock/verdict"))
print("verdict:", json.dumps(verdict))
raise SystemExit(0 if verdict["passed"] else 1)
PY

echo "== llmock: a prompt over a window that nobody told: its refusal is repeated, the prompt shortened, and the call made again"
MOCK_KEY=sk-test run "$work/over" --config "$work/llmock.yaml" --model mock:gpt-4 "$(printf 'word %.0s' {1..4000})"
expect "of 3000 tokens" "$work/over.err"
expect "compacted by" "$work/over.err"
grep "of 3000 tokens" "$work/over.err" | cut -c 1-160

echo "== llmock: broken streams and refusals at random, in both of its protocols, and its verdict"
"$work/venv/bin/llmock" serve --port 4741 --tool-mode auto --error-rate 429=0.1 --error-rate 503=0.1 \
    --stream-fault truncate=0.1 --stream-fault disconnect=0.1 --stream-fault malformed=0.1 >"$work/faulty.log" 2>&1 &
pids+=($!)
wait_for 4741
for kind in openai anthropic; do
    base=http://127.0.0.1:4741/v1
    [ $kind = openai ] || base=http://127.0.0.1:4741/anthropic
    sed -e "s/kind: openai/kind: $kind/" -e "s|http://127.0.0.1:4712/v1|$base|" -e "s/window: 3000/window: 30000/" \
        "$work/llmock.yaml" >"$work/faulty.$kind.yaml"
    done_=0
    for _ in $(seq 10); do
        if MOCK_KEY=sk-test run "$work/faulty" --config "$work/faulty.$kind.yaml" "Where are the rules?"; then
            done_=$((done_ + 1))
        else
            expect "error: " "$work/faulty.err"
        fi
    done
    [ $done_ -ge 8 ] || fail "$kind: only $done_ of 10 runs came to an end"
    echo "$kind: $done_ of 10 runs done"
done
"$work/venv/bin/python" - <<'PY'
import json, urllib.request
verdict = json.load(urllib.request.urlopen("http://127.0.0.1:4741/_llmock/verdict"))
print("verdict:", json.dumps(verdict)[:2000])
raise SystemExit(0 if verdict["passed"] else 1)
PY

[ -z "${SKIP_LLAMA:-}" ] || { echo "== all is well, llama.cpp left out"; exit 0; }

if [ -z "${LLAMA_SERVER:-}" ]; then
    echo "== build llama-server"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check cmake==4.1.2 ninja scikit-build-core
    (cd "$work" && PATH=$work/venv/bin:$PATH pip download --quiet --no-deps --no-build-isolation --no-binary :all: \
        llama-cpp-python==0.3.36 && tar xzf llama_cpp_python-*.tar.gz)
    llama=$work/llama_cpp_python-0.3.36/vendor/llama.cpp
    PATH=$work/venv/bin:$PATH cmake -G Ninja -S "$llama" -B "$work/llama" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF \
        -DLLAMA_USE_PREBUILT_UI=OFF -DGGML_NATIVE=OFF >/dev/null
    PATH=$work/venv/bin:$PATH ninja -C "$work/llama" llama-server >/dev/null
    LLAMA_SERVER=$work/llama/bin/llama-server
    LLAMA_TEMPLATE=$llama/models/templates/meetkai-functionary-medium-v3.2.jinja
fi
[ -n "${LLAMA_TEMPLATE:-}" ] || fail "LLAMA_TEMPLATE must name meetkai-functionary-medium-v3.2.jinja of llama.cpp's sources"

echo "== llama.cpp: a model of random weights with a window of 4,096 tokens"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check gguf numpy
"$work/venv/bin/python" "$root/tests/acceptance/random_model.py" "$work/random.gguf" "$LLAMA_TEMPLATE"
"$LLAMA_SERVER" -m "$work/random.gguf" -c 4096 -np 1 --threads 1 --jinja --host 127.0.0.1 --port 4751 >"$work/llama.log" 2>&1 &
pids+=($!)
wait_for 4751
until curl -sf http://127.0.0.1:4751/health >/dev/null; do sleep 0.2; done

# llama FOLDER MODELS COMPACT: thirty calls; the model's window is what MODELS says.
llama() {
    local out=$1
    python3 "$root/tests/acceptance/insisting_proxy.py" "$port" http://127.0.0.1:4751 "$out.notes" >"$out.proxy" 2>&1 &
    pids+=($!)
    wait_for "$port"
    cat >"$out.yaml" <<YAML
providers:
  llama: { kind: openai, base_url: "http://127.0.0.1:$port/v1" }
models: $2
agents:
  - id: reader
    model: "llama:random"
    tools: [read, list]
    max_iterations: 40
    max_output_tokens: 300
    system_prompt: Read the files.
    compact: $3
YAML
    run "$out" --config "$out.yaml" "Where are the rules?" --record "$out.json" || { cat "$out.err" >&2; fail "$out"; }
    port=$((port + 1))
    expect "max_iterations (40) is reached" "$out.err"
    expect "40 calls" "$out.err"
    "$forge" replay "$out.json" --json >/dev/null
    grep " compactions · " "$out.err"
    summed "$out.notes"
}

echo "-- the window is configured; its tokens are four of ours or more, so at most one refusal teaches what fits"
port=4761
llama "$work/window" "{ 'llama:random': { window: 4096, max_output: 300 } }" "{}"
[ "$(grep -c exceed_context_size "$work/window.notes")" -le 1 ] || fail "the window was exceeded more than once"
echo "-- the window is believed to be four times as large: each refusal is recovered from"
llama "$work/believed" "{ 'llama:random': { window: 16384, max_output: 300 } }" "{}"
expect "exceed_context_size_error" "$work/believed.notes"
expect "the prompt is too long for the model" "$work/believed.err"

echo "== all is well"
