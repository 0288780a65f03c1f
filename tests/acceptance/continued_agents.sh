#!/usr/bin/env bash
# Lets the real Claude Code, Codex and pi continue sessions of each other that `forge continue` wrote for them, in a network namespace of
# their own, against a scripted server. The calls of their first request must be the recorded ones. Has the PyPI package `atif` judge the
# same sessions in that format. Installs the agents from npm and the package from PyPI, so it needs npm, python3 and the right to make a
# namespace; it is not part of the suite.
#
#   FORGE_CORPUS=FOLDER tests/acceptance/continued_agents.sh [PATH_OF_FORGE]
#
# AGENTS=FOLDER and ATIF=FOLDER find the agents and the package where they were installed before.
set -euo pipefail
cd "$(dirname "$0")/../.."
forge=$(realpath "${1:-target/release/forge}")
corpus=$(realpath "${FORGE_CORPUS:?the folder of the recorded sessions}")
agents=${AGENTS:-$(mktemp -d)}
atif=${ATIF:-$(mktemp -d)}
[ -x "$agents/node_modules/.bin/pi" ] || npm install --silent --prefix "$agents" \
    @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @mariozechner/pi-coding-agent@0.73.1
[ -x "$atif/bin/python" ] || { python3 -m venv "$atif" && "$atif/bin/pip" install --quiet atif==1.8.0; }
"$atif/bin/python" tests/acceptance/real_agents/atif_judge.py "$forge" "$corpus"
exec unshare --net --map-root-user sh -c 'ip link set lo up && exec python3 "$@"' \
    sh tests/acceptance/real_agents/continued.py "$forge" "$corpus" "$agents/node_modules/.bin"
