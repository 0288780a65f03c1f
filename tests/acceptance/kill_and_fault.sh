#!/usr/bin/env bash
# Kills runs at random moments, takes them over, and cuts them off from their store, on SQLite and on Postgres; then counts effects
# that happened twice or were lost, and runs that nobody asked for. Prints a table.
#
#   tests/acceptance/kill_and_fault.sh [PATH_OF_FORGE]
#
# Needs Python 3 and, for Postgres, `initdb` and `pg_ctl` (or FORGE_TEST_POSTGRES_URL, a server on which databases may be created).
# KILLS, TAKE_OVERS and HOLES say how often each happens on each store (100, 100 and 10); STORES names them (SQLite,Postgres); SEED
# repeats the same moments.
set -euo pipefail
cd "$(dirname "$0")/../.."
forge=$(realpath "${1:-target/release/forge}")
[ -x "$forge" ] || {
    echo "there is no $forge: run 'cargo build --release'" >&2
    exit 2
}
exec python3 tests/acceptance/kill_and_fault.py "$forge"
