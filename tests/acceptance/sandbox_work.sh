#!/usr/bin/env bash
# Does real work inside the sandbox: `cargo test`, `npm test`, `pytest`, `git commit`, and a build with a cache outside the workspace, on
# repositories that it makes, through `forge run` with a scripted model. Work whose program is not there is left out, and that is said.
#
#   tests/acceptance/sandbox_work.sh [PATH_OF_FORGE] [PATH_OF_SCRIPTED_SERVER]
#
# KEEP=FOLDER keeps what was written.
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
export NO_COLOR=1 OPENAI_API_KEY=none XDG_CONFIG_HOME=$work/config
mkdir -p "$work/config/forge"
skipped=0

fail() { echo "FAILED: $*" >&2; exit 1; }
# play SCRIPT: the scripted model, to which OPENAI_BASE_URL leads.
play() {
    : > "$work/model.out"
    "$model" "$1" > "$work/model.out" 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do grep -q base_url "$work/model.out" && break; sleep 0.1; done
    OPENAI_BASE_URL=$(sed -n 's/^base_url: //p' "$work/model.out")
    export OPENAI_BASE_URL
}
# shell COMMAND: an agent's one call of `shell` in this folder; what it answered is in $work/answer.
shell() {
    cat > "$work/forge.yaml" <<'YAML'
agents: [{ id: worker, model: openai:scripted, tools: [shell], permissions: { shell: allow } }]
tool_settings: { shell: { timeout: 10m } }
providers: { openai: { retries: 0 } }
YAML
    LINE=$1 script "$work/calls.json"
    play "$work/calls.json"
    rm -f "$work/session.json"
    "$forge" run --store none --config "$work/forge.yaml" --record "$work/session.json" "work" > "$work/run.out" 2> "$work/run.err" || {
        cat "$work/run.err" >&2
        fail "the run failed"
    }
    python3 - "$work/session.json" > "$work/answer" <<'PYTHON'
import json, sys
session = json.load(open(sys.argv[1]))
messages = session["messages"] if isinstance(session, dict) else session
print([m["content"] for m in messages if m["role"] == "tool"][-1])
PYTHON
}
# script FILE: what the model plays, one call of `shell` with $LINE.
script() {
    python3 -c 'import json, os, sys
call = {"name": "shell", "arguments": {"command": os.environ["LINE"]}}
json.dump([{"calls": [call]}, {"text": "done"}], open(sys.argv[1], "w"))' "$1"
}
# works NAME TEXT COMMAND: the command succeeds inside the sandbox, and prints the text.
works() {
    shell "$3"
    grep -qF -- "$2" "$work/answer" && ! grep -qF "[exit code" "$work/answer" || {
        cat "$work/answer" >&2
        fail "$1 does not work in the sandbox"
    }
    echo "   $1 works"
}
# has PROGRAM: whether it is there; where it is not, that is said.
has() {
    command -v "$1" > /dev/null || {
        echo "   SKIPPED: there is no $1"
        skipped=$((skipped + 1))
        return 1
    }
}

echo "== the sandbox"
(cd "$work" && "$forge" doctor --store none 2>&1 || true) | grep "sandbox" | tee "$work/doctor"
grep -q "all of it is enforced" "$work/doctor" || echo "   NOTE: what follows says little about a sandbox that is not enforced"

echo "== cargo test"
if has cargo; then
    mkdir -p "$work/crate/src" && cd "$work/crate"
    printf '[package]\nname = "made"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' > Cargo.toml
    cat > src/lib.rs <<'RUST'
#[test]
fn a_server_on_loopback_answers() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    std::fs::write(std::env::temp_dir().join("made"), "x").unwrap();
}
RUST
    works "cargo test" "1 passed" "cargo test --offline"
fi

echo "== npm test"
if has npm && has node; then
    mkdir -p "$work/package" && cd "$work/package"
    printf '{"name": "made", "version": "1.0.0", "scripts": {"test": "node --test"}}\n' > package.json
    cat > made.test.js <<'JS'
const test = require('node:test');
const http = require('node:http');
const { execFileSync } = require('node:child_process');
test('a server answers and a child runs', (_, done) => {
    if (execFileSync('echo', ['x']).toString() !== 'x\n') throw new Error('no child');
    const server = http.createServer((_, answer) => answer.end('x')).listen(0, '127.0.0.1', () => {
        http.get({ port: server.address().port, host: '127.0.0.1' }, (answer) => {
            answer.resume();
            server.close(done);
        });
    });
});
JS
    works "npm test" "pass 1" "npm test"
fi

echo "== pytest"
mkdir -p "$work/python" && cd "$work/python"
printf 'import multiprocessing\n\ndef test_made(tmp_path):\n    multiprocessing.Lock()\n    (tmp_path / "x").write_text("x")\n    assert (tmp_path / "x").read_text() == "x"\n' > test_made.py
python=python3
if ! python3 -m pytest --version > /dev/null 2>&1; then
    python=$work/venv/bin/python
    [ -x "$python" ] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" -q install pytest; } > "$work/pip.out" 2>&1 || true
fi
if "$python" -m pytest --version > /dev/null 2>&1; then
    works "pytest" "1 passed" "$python -m pytest -q"
else
    echo "   SKIPPED: there is no pytest"
    skipped=$((skipped + 1))
fi

echo "== git commit"
if has git; then
    mkdir -p "$work/repository" && cd "$work/repository"
    git init -q .
    echo x > file
    works "git commit" "1 file changed" "git add file && git -c user.name=a -c user.email=a@example.com commit -m 'Add a file' && git log --oneline"
fi

echo "== a build with a cache outside the workspace"
mkdir -p "$work/build" && cd "$work/build"
cache=$work/cache/made
rm -rf "$work/cache"
printf 'out: in\n\tmkdir -p %s\n\tcp in %s/in\n\tcp %s/in out\n\techo built\n' "$cache" "$cache" "$cache" > Makefile
echo x > in
if has make; then
    shell "make"
    rule=$(sed -n 's/.*`\(sandbox: { write: \[.*\] }\)`.*/\1/p' "$work/answer" | head -1)
    [ -n "$rule" ] || { cat "$work/answer" >&2; fail "no rule is suggested"; }
    echo "   suggested: $rule"
    [ ! -e "$cache" ] || fail "the cache was written without a rule"
    echo "$rule" > "$work/config/forge/forge.yaml"
    works "make with the rule" "built" "make"
    rm "$work/config/forge/forge.yaml"
fi

echo "== done ($skipped left out)"
