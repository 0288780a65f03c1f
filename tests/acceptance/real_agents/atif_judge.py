#!/usr/bin/env python3
"""Writes recorded sessions as ATIF trajectories and validates them with the models of the package `atif`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from atif import Trajectory

FORGE, CORPUS = sys.argv[1], Path(sys.argv[2])
SESSIONS = ("claude-code-*/*/*.jsonl", "codex-*/*/*.jsonl", "pi-*/*/*.jsonl", "tau-bench/*/*.json", "openhands/*/*.json*",
            "gemini-cli-*/*/*.json", "swe-agent-*/*/*", "cline/*/*.json", "copilot-*/*/*.jsonl")


def main():
    failed = judged = 0
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "t.json"
        for source in sorted(file for pattern in SESSIONS for file in CORPUS.glob(pattern)):
            for session in ("0",):
                run = subprocess.run([FORGE, "compact", source, "--session", session, "--to", "atif", "--max-tokens", "10000k", "-o", target],
                                     capture_output=True, text=True)
                if run.returncode:
                    continue
                judged += 1
                try:
                    Trajectory.model_validate_json(target.read_text())
                except ValueError as error:
                    failed += 1
                    print(f"{source.relative_to(CORPUS)}: {str(error).splitlines()[:4]}")
    print(f"atif: {judged} trajectories, {failed} invalid")
    sys.exit(1 if failed or not judged else 0)


main()
