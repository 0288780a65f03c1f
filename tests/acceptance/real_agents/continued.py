#!/usr/bin/env python3
"""Lets real agents continue sessions of other agents from files that Forge wrote, and compares the calls of their first requests."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORGE, CORPUS, BIN = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
MOST = int(os.environ.get("SESSIONS", "3"))
PORT = 8766
SESSIONS = {"claude": "claude-code-*/*/*.jsonl", "codex": "codex-*/*/*.jsonl", "pi": "pi-*/*/*.jsonl"}
# Agents compact what is larger before their first request, so a copy of it is compacted in place first.
MOST_TOKENS = 40_000
TASK = "continue here"


def words(agent, plan):
    """Returns the command that Forge printed, in the form that needs no terminal."""
    command = plan["command"]
    if agent == "claude":
        return [BIN / "claude", "-p", *command[1:-1], "--model", "claude-sonnet-4-5", TASK]
    if agent == "codex":
        provider = f'{{name="m",base_url="http://127.0.0.1:{PORT}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        return [BIN / "codex", "exec", "--skip-git-repo-check", "-c", "model_provider=m", "-c",
                f"model_providers.m={provider}", "-m", "gpt-5", *command[1:]]
    return [BIN / "pi", "-p", "--provider", "mock", "--model", "m", *command[1:]]


def recorded_calls(source, work):
    """Returns the calls as OpenAI messages have them: names and arguments."""
    target = work / "recorded.json"
    run = subprocess.run([FORGE, "compact", source, "--to", "openai", "--max-tokens", "10000k", "-o", target],
                         capture_output=True, text=True)
    if run.returncode:
        return None
    messages = json.loads(target.read_text())["messages"]
    calls = [call["function"] for message in messages for call in message.get("tool_calls") or []]
    return [(call["name"], arguments(call["arguments"])) for call in calls]


def arguments(text):
    try:
        value = json.loads(text)
        return value if isinstance(value, dict) else {"input": text}
    except ValueError:
        return {"input": text}


def sent_calls(agent, request):
    if agent == "claude":
        blocks = [b for m in request["messages"] if isinstance(m["content"], list) for b in m["content"]]
        return [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
    if agent == "codex":
        return [(i["name"], arguments(i["arguments"])) for i in request["input"] if i.get("type") == "function_call"]
    calls = [call["function"] for message in request["messages"] for call in message.get("tool_calls") or []]
    return [(call["name"], arguments(call["arguments"])) for call in calls]


def legal(calls):
    return [("".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)[:64], value) for name, value in calls]


def attempt(agent, source):
    root = Path(tempfile.mkdtemp())
    home, work, log = root / "home", root / "work", root / "log"
    for folder in (home, work, log):
        folder.mkdir()
    try:
        copy = root / source.name
        shutil.copy(source, copy)
        source = copy
        subprocess.run([FORGE, "compact", source, "--in-place", "--max-tokens", str(MOST_TOKENS)], capture_output=True)
        recorded = recorded_calls(source, root)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{PORT}",
                       "ANTHROPIC_API_KEY": "sk-ant-x", "OPENAI_API_KEY": "x", "PI_OFFLINE": "1", "DISABLE_TELEMETRY": "1",
                       "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        run = subprocess.run([FORGE, "continue", source, TASK, "--with", agent, "--json"], cwd=work, env=environment,
                             capture_output=True, text=True)
        if run.returncode or recorded is None:
            return None
        plan = json.loads(run.stdout)
        if not recorded:
            return None
        if agent == "pi":
            (home / ".pi/agent").mkdir(parents=True, exist_ok=True)
            model = {"id": "m", "name": "m", "contextWindow": 200000, "maxTokens": 1000, "reasoning": False, "input": ["text"],
                     "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
            provider = {"baseUrl": f"http://127.0.0.1:{PORT}/v1", "apiKey": "x", "api": "openai-completions", "models": [model]}
            (home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"mock": provider}}))
        server = subprocess.Popen([sys.executable, Path(__file__).parent / "server.py", str(PORT), log])
        try:
            time.sleep(0.4)
            run = subprocess.run(words(agent, plan), cwd=work, env=environment, capture_output=True, text=True,
                                 stdin=subprocess.DEVNULL, timeout=120)
        finally:
            server.kill()
            server.wait()
        requests = [json.loads(file.read_text()) for file in sorted(log.glob("*.json"))]
        requests = [r for r in requests if TASK in json.dumps((r.get("messages") or r.get("input") or [])[-1:])]
        if not requests:
            return plan, len(recorded), "no request: " + (run.stderr or run.stdout).strip()[-200:]
        sent = sent_calls(agent, requests[0])
        if sent != legal(recorded):
            first = next((n for n, pair in enumerate(zip(sent, legal(recorded))) if pair[0] != pair[1]), min(len(sent), len(recorded)))
            return plan, len(recorded), f"{len(sent)} of {len(recorded)} calls, first difference at {first}"
        return plan, len(recorded), ""
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main():
    failed = n_judged = 0
    print("from    with    session                 tokens   calls  verdict")
    for origin, pattern in SESSIONS.items():
        for agent in SESSIONS:
            done = 0
            for source in sorted(CORPUS.glob(pattern), key=lambda file: -file.stat().st_size):
                result = attempt(agent, source) if agent != origin and done < MOST else None
                if result is None:
                    continue
                done += 1
                n_judged += 1
                plan, n_calls, verdict = result
                failed += bool(verdict)
                print(f"{origin:7} {agent:7} {source.stem[:20]:20} {plan['tokens']:9,} {n_calls:7}  {verdict or 'ok'}", flush=True)
    print(f"{n_judged} continued, {failed} failed")
    sys.exit(1 if failed or not n_judged else 0)


main()
