#!/usr/bin/env bash
# Makes sessions of 300 MB and of 2 GB in several formats and measures what Forge needs to inspect, compact, list and continue them: time
# and peak memory, as a table. Then fills the disk, takes away permissions and holds a file open, and checks that the original keeps its
# bytes. It needs python3, zstd, about 15 GB in FOLDER and a quarter of an hour, so it is not part of the suite.
#
#   tests/acceptance/large_sessions.sh [PATH_OF_FORGE] [FOLDER]
#
# SIZES="300 2048" are the sizes in MB; FORMATS="codex pi" makes only these.
set -euo pipefail
cd "$(dirname "$0")/../.."
forge=$(realpath "${1:-target/release/forge}")
folder=${2:-$(mktemp -d)}
exec python3 tests/acceptance/large_sessions/measure.py "$forge" "$folder"
