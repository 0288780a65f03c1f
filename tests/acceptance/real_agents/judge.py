#!/usr/bin/env python3
"""Compacts recorded sessions in place, lets their real agents resume them, and judges the first request of each."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORGE, CORPUS, BIN = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
# The instructions of Codex alone are 11,000 tokens.
LIMITS = {"claude": (8_000, 20_000), "codex": (16_000, 32_000), "pi": (8_000, 20_000)}
MOST = int(os.environ.get("SESSIONS", "12"))
PORT = 8765
SESSIONS = {"claude": "claude-code-*/*/*.jsonl", "codex": "codex-*/*/*.jsonl", "pi": "pi-*/*/*.jsonl"}


def place(agent, source, sixths, home, work):
    """Puts the session where its agent looks for it, as it was when it had that many sixths of its lines."""
    lines = source.read_text().splitlines(keepends=True)
    text = "".join(lines[:len(lines) * sixths // 6])
    # Codex resumes a session only with the provider that it was made with.
    text = re.sub(r'"model_provider":\s*"[^"]*"', '"model_provider":"m"', text)
    # pi asks where to work if the folder of the session is not there.
    text = re.sub(r'"cwd":\s*"[^"]*"', lambda _: f'"cwd":{json.dumps(str(work))}', text, count=1) if agent == "pi" else text
    ident = re.search(r'"sessionId":\s*"([^"]+)"' if agent == "claude" else r'"id":\s*"([^"]+)"', text).group(1)
    if agent == "claude":
        path = home / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", str(work)) / f"{ident}.jsonl"
    elif agent == "codex":
        path = home / f".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{ident}.jsonl"
    else:
        path = home / "session.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path, ident


def command(agent, ident, path):
    if agent == "claude":
        return [BIN / "claude", "-p", "--resume", ident, "--model", "claude-sonnet-4-5", "continue"]
    if agent == "codex":
        provider = f'{{name="m",base_url="http://127.0.0.1:{PORT}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        return [BIN / "codex", "exec", "--skip-git-repo-check", "-c", "model_provider=m", "-c",
                f"model_providers.m={provider}", "-m", "gpt-5", "resume", ident, "continue"]
    return [BIN / "pi", "-p", "--provider", "mock", "--model", "m", "--session", path, "continue"]


def messages_of(request):
    return request.get("messages") or request.get("input") or []


def faults(agent, request):
    """Returns what the provider would refuse: calls without results, results without calls."""
    found, open_calls = [], []
    for message in messages_of(request):
        if agent == "claude":
            blocks = message["content"] if isinstance(message["content"], list) else []
            answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
            made = [b["id"] for b in blocks if b["type"] == "tool_use"]
        elif agent == "codex":
            kind = message.get("type", "")
            answered = [message["call_id"]] if kind.endswith("_output") else []
            made = [message["call_id"]] if kind.endswith("_call") and "call_id" in message else []
        else:
            answered = [message["tool_call_id"]] if message["role"] == "tool" else []
            made = [call["id"] for call in message.get("tool_calls") or []]
        found += [f"no call {one}" for one in answered if one not in open_calls]
        open_calls = [one for one in open_calls if one not in answered]
        if agent == "claude" and message["role"] != "system" and open_calls:
            found += [f"no result {one}" for one in open_calls]
            open_calls = []
        open_calls += made
    return found + [f"no result {one}" for one in open_calls]


def tokens(value):
    """Estimates tokens roughly: one for four characters of JSON, without images. It is shown, and not judged."""
    return len(re.sub("[A-Za-z0-9+/=]{2000,}", "", json.dumps(value, ensure_ascii=False))) // 4


def attempt(agent, source, sixths, limit):
    root = Path(tempfile.mkdtemp())
    home, work, log = root / "home", root / "work", root / "log"
    for folder in (home, work, log):
        folder.mkdir()
    path, ident = place(agent, source, sixths, home, work)
    before = path.read_bytes()
    compact = [FORGE, "compact", path, "--in-place", "--max-tokens", str(limit), "--json"]
    run = subprocess.run(compact, capture_output=True, text=True)
    if run.returncode or json.loads(run.stdout)["outcome"] != "applied":
        shutil.rmtree(root)
        return None
    kept = path.read_bytes()
    record = "Notes in place of earlier" in kept[len(before):].decode()
    if agent == "pi":
        (home / ".pi/agent").mkdir(parents=True)
        model = {"id": "m", "name": "m", "contextWindow": 200000, "maxTokens": 1000, "reasoning": False, "input": ["text"],
                 "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
        provider = {"baseUrl": f"http://127.0.0.1:{PORT}/v1", "apiKey": "x", "api": "openai-completions", "models": [model]}
        (home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"mock": provider}}))
    server = subprocess.Popen([sys.executable, Path(__file__).parent / "server.py", str(PORT), log])
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{PORT}",
                   "ANTHROPIC_API_KEY": "sk-ant-x", "OPENAI_API_KEY": "x", "PI_OFFLINE": "1", "DISABLE_TELEMETRY": "1",
                   "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    try:
        time.sleep(0.4)
        run = subprocess.run(command(agent, ident, path), cwd=work, env=environment, capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=90)
    finally:
        server.kill()
        server.wait()
    requests = [json.loads(file.read_text()) for file in sorted(log.glob("*.json"))]
    requests = [request for request in requests if "continue" in json.dumps(messages_of(request)[-1:])]
    verdict = []
    if not requests:
        verdict.append("no request: " + (run.stderr or run.stdout).strip()[-120:])
    else:
        said = messages_of(requests[0])
        verdict += faults(agent, requests[0])[:2]
        if record and "Notes in place of earlier" not in json.dumps(said):
            verdict.append("the record is missing")
    path.write_bytes(kept)
    subprocess.run([FORGE, "compact", path, "--undo"], capture_output=True)
    if path.read_bytes() != before:
        verdict.append("undo left other bytes")
    size = tokens(messages_of(requests[0])) if requests else 0
    shutil.rmtree(root, ignore_errors=True)
    return len(before), size, verdict


def main():
    failed = 0
    print("agent   session              part   limit   bytes before  tokens sent  verdict")
    for agent, pattern in SESSIONS.items():
        sources = sorted(CORPUS.glob(pattern))
        for limit in LIMITS[agent]:
            done = 0
            # Where there are too few whole sessions, they count again as they were earlier.
            for sixths, source in ((sixths, source) for sixths in range(6, 0, -1) for source in sources):
                result = attempt(agent, source, sixths, limit) if done < MOST else None
                if result is None:
                    continue
                done += 1
                size, sent, verdict = result
                failed += bool(verdict)
                print(f"{agent:7} {source.stem[:20]:20} {sixths}/6 {limit:7,} {size:14,} {sent:12,}  "
                      f"{'; '.join(verdict) or 'ok'}", flush=True)
            if done < MOST:
                failed += 1
                print(f"{agent:7} only {done} of {MOST} sessions are larger than {limit:,} tokens", flush=True)
    print(f"{failed} failed")
    sys.exit(1 if failed else 0)


main()
