#!/usr/bin/env bash
# Lets the real Claude Code, Codex and pi resume sessions that `forge compact --in-place` compacted, in a network namespace of their own,
# against a scripted server. Judges their first request, and takes the compaction back. Installs the agents from npm, so it needs npm,
# python3 and the right to make a namespace; it is not part of the suite.
#
#   FORGE_CORPUS=FOLDER tests/acceptance/real_agents.sh [PATH_OF_FORGE]
#
# AGENTS=FOLDER finds the agents that were installed there before.
set -euo pipefail
cd "$(dirname "$0")/../.."
forge=$(realpath "${1:-target/release/forge}")
corpus=$(realpath "${FORGE_CORPUS:?the folder of the recorded sessions}")
agents=${AGENTS:-$(mktemp -d)}
[ -x "$agents/node_modules/.bin/pi" ] || npm install --silent --prefix "$agents" \
    @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @mariozechner/pi-coding-agent@0.73.1
exec unshare --net --map-root-user sh -c 'ip link set lo up && exec python3 "$@"' \
    sh tests/acceptance/real_agents/judge.py "$forge" "$corpus" "$agents/node_modules/.bin"
