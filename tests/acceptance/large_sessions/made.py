"""Makes sessions of any size: exchanges of varied text, in the form of an agent's file. A message has about as many
bytes of the file as in recorded sessions: 3,500 in those of Codex, 4,100 of Claude Code, 1,800 of pi."""

import json
import random
import subprocess

WORDS = (
    "parser buffer window retry socket ledger matrix planner cursor branch commit status column record index "
    "stream token prompt budget sandbox worker queue lease shard cache header packet route ticket invoice"
).split()
STAMP = "2026-01-01T00:00:00.000Z"


class Text:
    """Text that differs from result to result, and is cheap to make."""

    def __init__(self):
        self.random = random.Random(20)
        self.lines = [self.line(n) for n in range(4000)]

    def line(self, n):
        chosen = [self.random.choice(WORDS) for _ in range(8)]
        return f"    let {chosen[0]}_{n} = {chosen[1]}.{chosen[2]}({n}, \"{chosen[3]} {chosen[4]}\")?; // {' '.join(chosen[5:])}"

    def result(self, n):
        start = self.random.randrange(len(self.lines) - 160)
        count = self.random.choice([3, 20, 60, 160])
        return f"src/module_{n % 977}/file_{n}.rs\n" + "\n".join(self.lines[start : start + count])

    def reply(self, n):
        return f"I read file {n} and change {self.random.choice(WORDS)} in it."

    def request(self, n):
        return f"Now look at {self.random.choice(WORDS)} number {n}: why does it fail?"


def dumps(value):
    return json.dumps(value, separators=(",", ":"))


def claude_code(text):
    yield_n = 0

    def line(kind, message):
        nonlocal yield_n
        yield_n += 1
        parent = f"00000000-0000-4000-8000-{yield_n - 1:012d}" if yield_n > 1 else None
        return dumps({
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/project", "sessionId": SESSION,
            "version": "2.1.197", "gitBranch": "main", "type": kind, "message": message,
            "uuid": f"00000000-0000-4000-8000-{yield_n:012d}", "timestamp": STAMP}) + "\n"

    n = 0
    while True:
        if n % 40 == 0:
            yield line("user", {"role": "user", "content": text.request(n)})
        usage = {"input_tokens": 3, "cache_read_input_tokens": 90_000, "output_tokens": 60}
        call = {"type": "tool_use", "id": f"toolu_{n:08d}", "name": "Read", "input": {"file_path": f"/project/{n}.rs"}}
        for block in ({"type": "text", "text": text.reply(n)}, call):
            yield line("assistant", {"id": f"msg_{n:08d}", "type": "message", "role": "assistant", "model": "claude-opus-4-1",
                                     "content": [block], "stop_reason": None, "usage": usage})
        yield line("user", {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": f"toolu_{n:08d}", "content": text.result(n)}]})
        n += 1


SESSION = "11111111-2222-4333-8444-555555555555"


def codex(text):
    def line(kind, payload):
        return dumps({"timestamp": STAMP, "type": kind, "payload": payload}) + "\n"

    yield line("session_meta", {"id": SESSION, "timestamp": STAMP, "cwd": "/project", "originator": "codex_cli_rs",
                                "cli_version": "0.169.0", "source": "cli", "model_provider": "openai",
                                "base_instructions": {"text": "You are a coding agent."}})
    yield line("turn_context", {"cwd": "/project", "approval_policy": "never", "sandbox_policy": {"type": "read-only"},
                                "model": "gpt-5.4", "summary": "auto"})
    n = 0
    while True:
        if n % 40 == 0:
            said = text.request(n)
            yield line("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]})
            yield line("event_msg", {"type": "user_message", "message": said})
        yield line("response_item", {"type": "message", "role": "assistant",
                                     "content": [{"type": "output_text", "text": text.reply(n)}]})
        yield line("response_item", {"type": "function_call", "name": "exec_command", "call_id": f"call_{n:08d}",
                                     "arguments": dumps({"cmd": f"cat {n}.rs"})})
        yield line("response_item", {"type": "function_call_output", "call_id": f"call_{n:08d}", "output": text.result(n)})
        if n % 10 == 0:
            usage = {"input_tokens": 90_000, "cached_input_tokens": 80_000, "output_tokens": 60 + n, "total_tokens": 90_060 + n}
            yield line("event_msg", {"type": "token_count", "info": {"total_token_usage": usage, "last_token_usage": usage,
                                                                     "model_context_window": 272_000}})
        n += 1


def pi(text):
    n_lines = 0

    def line(message):
        nonlocal n_lines
        n_lines += 1
        return dumps({"type": "message", "id": f"{n_lines:08x}", "parentId": f"{n_lines - 1:08x}" if n_lines > 1 else None,
                      "timestamp": STAMP, "message": message}) + "\n"

    yield dumps({"type": "session", "version": 3, "id": SESSION, "timestamp": STAMP, "cwd": "/project"}) + "\n"
    n = 0
    while True:
        if n % 40 == 0:
            yield line({"role": "user", "content": [{"type": "text", "text": text.request(n)}], "timestamp": 1})
        usage = {"input": 5, "output": 60, "cacheRead": 90_000, "cacheWrite": 0, "cost": {"total": 0.01}}
        yield line({"role": "assistant", "content": [
            {"type": "text", "text": text.reply(n)},
            {"type": "toolCall", "id": f"call_{n:08d}", "name": "read", "arguments": {"path": f"{n}.rs"}}],
            "api": "openai-responses", "provider": "openai", "model": "gpt-5.4", "usage": usage, "stopReason": "toolUse",
            "timestamp": 1})
        yield line({"role": "toolResult", "toolCallId": f"call_{n:08d}", "toolName": "read",
                    "content": [{"type": "text", "text": text.result(n)}], "isError": False, "timestamp": 1})
        n += 1


def openai(text):
    yield '{"messages":[\n' + dumps({"role": "system", "content": "You are a coding agent."})
    n = 0
    while True:
        if n % 40 == 0:
            yield ",\n" + dumps({"role": "user", "content": text.request(n)})
        call = {"id": f"call_{n:08d}", "type": "function",
                "function": {"name": "read", "arguments": dumps({"path": f"{n}.rs"})}}
        yield ",\n" + dumps({"role": "assistant", "content": text.reply(n), "tool_calls": [call]})
        yield ",\n" + dumps({"role": "tool", "tool_call_id": f"call_{n:08d}", "content": text.result(n)})
        n += 1


def cline(text):
    yield "[\n" + dumps({"role": "user", "content": [{"type": "text", "text": "<task>\nRead the files.\n</task>"}], "ts": 1})
    n = 0
    while True:
        call = {"type": "tool_use", "id": f"toolu_{n:08d}", "name": "read_file", "input": {"path": f"{n}.rs"}}
        yield ",\n" + dumps({"role": "assistant", "content": [{"type": "text", "text": text.reply(n)}, call], "ts": 1})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n:08d}", "content": text.result(n)}
        yield ",\n" + dumps({"role": "user", "content": [result], "ts": 1})
        n += 1


def aider(text):
    yield "\n# aider chat started at 2026-01-01 00:00:00\n\n> Aider v0.86.1  \n"
    n = 0
    while True:
        yield f"\n#### {text.request(n)}  \n\n{text.reply(n)}\n\n```\n{text.result(n)}\n```\n\n> Tokens: 90k sent, 60 received.  \n"
        n += 1


def gemini_cli(text):
    yield dumps({"sessionId": SESSION, "projectHash": "ab" * 32, "startTime": STAMP, "lastUpdated": STAMP, "kind": "main"}) + "\n"
    n = 0
    while True:
        if n % 40 == 0:
            yield dumps({"id": f"u{n}", "timestamp": STAMP, "type": "user", "content": [{"text": text.request(n)}]}) + "\n"
        result = [{"functionResponse": {"id": f"c{n}", "name": "read_file", "response": {"output": text.result(n)}}}]
        made = {"id": f"c{n}", "name": "read_file", "args": {"path": f"{n}.rs"}, "result": result, "status": "success"}
        yield dumps({"id": f"g{n}", "timestamp": STAMP, "type": "gemini", "content": text.reply(n), "toolCalls": [made],
                     "tokens": {"input": 90_000, "output": 60, "total": 90_060}, "model": "gemini-2.5-pro"}) + "\n"
        n += 1


# Each format: its maker, the end of its file, the name of its file.
FORMATS = {
    "claude-code": (claude_code, "", f"{SESSION}.jsonl"),
    "codex": (codex, "", f"rollout-2026-01-01T00-00-00-{SESSION}.jsonl"),
    "codex-zst": (codex, "", f"rollout-2026-01-01T00-00-00-{SESSION}.jsonl"),
    "pi": (pi, "", f"2026-01-01T00-00-00-000Z_{SESSION}.jsonl"),
    "gemini-cli": (gemini_cli, "", "session.jsonl"),
    "openai": (openai, "\n]}\n", "session.json"),
    "cline": (cline, "\n]\n", "api_conversation_history.json"),
    "aider": (aider, "", ".aider.chat.history.md"),
}


def make(format, megabytes, folder):
    """Makes a file of about so many megabytes (unpacked) and returns its path and its size unpacked."""
    maker, end, name = FORMATS[format]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    size, most = 0, megabytes * 1_000_000
    with path.open("w", buffering=1 << 20) as out:
        for piece in maker(Text()):
            out.write(piece)
            size += len(piece)
            if size >= most:
                break
        out.write(end)
    if format == "codex-zst":
        subprocess.run(["zstd", "-q", "-3", "--rm", "-f", str(path)], check=True)
        path = path.with_name(path.name + ".zst")
    return path, size + len(end)
