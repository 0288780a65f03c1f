#!/usr/bin/env bash
# Runs the whole suite ten times in a row beside ten busy loops, as on a machine that others use as well. Ends with the first
# round that fails. ROUNDS and LOOPS are other numbers. With SHARED=1 the loops are in the suite's own session: where Linux
# groups processes by session, each loop then competes with each test, and a round takes twice as long.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --workspace --no-run
loops=()
trap 'kill -- "${loops[@]}" 2>/dev/null || true' EXIT
for _ in $(seq "${LOOPS:-10}"); do
    if [ -n "${SHARED:-}" ]; then
        sh -c 'while :; do :; done' &
    else
        setsid sh -c 'while :; do :; done' &
    fi
    loops+=($!)
done
for round in $(seq "${ROUNDS:-10}"); do
    started=$SECONDS
    log=$(mktemp)
    if ! cargo test --workspace >"$log" 2>&1; then
        echo "round $round failed: $log"
        exit 1
    fi
    passed=$(awk '/^test result/ { n += $4 } END { print n }' "$log")
    echo "round $round: $passed tests passed in $((SECONDS - started)) s"
    rm "$log"
done
