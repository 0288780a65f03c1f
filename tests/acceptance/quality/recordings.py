"""Recorded sessions as plain messages, cut at legal places, and written again for `forge` to read.

A message is {"role", "content", "tool_calls"?, "tool_call_id"?} as OpenAI has it, and three keys that only this judge reads:
  by      who wrote a user message: "person", "harness" (reminders, skill bodies, notifications, command output) or "aside"
          (the person did something but said nothing: an interrupt, a shell command)
  said    the person's own words, without what the harness put around them
  failed  whether the recording marks a tool result as an error (True, False or None)
"""
import glob, json, os, random, re

LIMIT = 420_000         # characters of a session that are read: about 105k tokens
REMINDER = re.compile(r"<(system-reminder|ide_\w+|local-command-caveat)>.*?</\1>", re.S)
ASIDE = re.compile(r"\[Request interrupted|<bash-input>|<command-(name|message|args)>")
HARNESS = re.compile(r"<(local-command|task-notification|bash-std|user-prompt-submit-hook|turn_aborted|environment_context|user_instructions|skill)|"
                     r"Caveat: The messages below|This session is being continued|Base directory for this skill|# AGENTS\.md instructions")


def text_of(content):
    """Returns the plain text of a content: a string, or blocks of text and results."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(t for t in map(text_of, content) if t)
    if isinstance(content, dict):
        for key in ("text", "content", "output"):
            if key in content:
                return text_of(content[key])
        return "[image]" if "image" in str(content.get("type")) else json.dumps(content, ensure_ascii=False)
    return str(content)


def flat(value, key=""):
    """Yields the lines of a call's arguments, as a reader sees them: one `key: value` for each leaf."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from flat(v, k)
    elif isinstance(value, list):
        for v in value:
            yield from flat(v, key)
    else:
        yield "%s: %s" % (key, value) if key else str(value)


def call_text(call):
    """Returns a call's name and arguments as text."""
    arguments = call["function"]["arguments"]
    try:
        arguments = "\n".join(flat(json.loads(arguments)))
    except ValueError:
        pass
    return call["function"]["name"] + " " + arguments


def message_text(m):
    """Returns everything that a model reads of a message."""
    return "\n".join([text_of(m.get("content"))] + [call_text(c) for c in m.get("tool_calls") or []]).strip("\n")


def full_text(messages):
    return "\n".join(message_text(m) for m in messages)


class Builder:
    """Messages in legal order: results directly after their calls, calls without a result closed, ids unique."""

    def __init__(self):
        self.messages, self.open, self.ids, self.last_key = [], {}, 0, None

    def close(self):
        for i, call_id in self.open.values():
            self.place(i, call_id, "(no result was recorded)", None)
        self.open = {}

    def place(self, i, call_id, text, failed):
        at = i + 1
        while at < len(self.messages) and self.messages[at]["role"] == "tool":
            at += 1
        self.messages.insert(at, {"role": "tool", "tool_call_id": call_id, "content": text or "(no output)", "failed": failed})

    def user(self, text, by="person", said=None, native=None):
        if text.strip():
            self.close()
            self.messages.append({"role": "user", "content": text, "by": by, "said": (said or text).strip() if by == "person" else "", "native": native or {}})

    def system(self, text):
        if text.strip() and not any(m["role"] == "user" for m in self.messages):
            self.messages.append({"role": "system", "content": text, "by": "harness", "said": ""})

    def assistant(self, text, calls=(), key=None):
        """Adds what the agent said and called; parts of one response (the same key) become one message."""
        if not text.strip() and not calls:
            return
        last = self.messages[-1] if self.messages else None
        joined = key is not None and key == self.last_key
        m = next((x for x in reversed(self.messages[-60:]) if x["role"] == "assistant"), None) if joined else None
        if m is None and last and last["role"] == "assistant" and not last.get("tool_calls"):
            m = last
        if m is None:
            self.close()
            m = {"role": "assistant", "content": ""}
            self.messages.append(m)
        self.last_key = key
        m["content"] = (m["content"] + "\n\n" + text if m["content"] else text) if text.strip() else m["content"]
        i = next(k for k in range(len(self.messages) - 1, -1, -1) if self.messages[k] is m)
        for call_id, name, arguments in calls:
            self.ids += 1
            new = "call_%d" % self.ids
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments if isinstance(arguments, dict) else {"input": arguments}, ensure_ascii=False)
            elif not arguments.lstrip().startswith("{"):
                arguments = json.dumps({"input": arguments}, ensure_ascii=False)
            m.setdefault("tool_calls", []).append({"id": new, "type": "function", "function": {"name": name or "tool", "arguments": arguments}})
            self.open[str(call_id)] = (i, new)

    def result(self, call_id, text, failed=None):
        if str(call_id) in self.open:
            i, new = self.open.pop(str(call_id))
            self.place(i, new, text, failed)

    def done(self):
        self.close()
        return self.messages


def json_lines(path):
    with open(path, encoding="utf8") as f:
        for line in f:
            try:
                yield json.loads(line)
            except ValueError:
                pass


def whose(text, native):
    """Returns who wrote a user record of Claude Code or Codex, and the person's words of it."""
    said = REMINDER.sub("", text).strip()
    if native.get("isMeta") or native.get("sourceToolUseID") or not said or HARNESS.match(said):
        return "harness", ""
    return ("aside", "") if ASIDE.match(said) else ("person", said)


def read_claude_code(path):
    """Yields one session; where the agent compacted, (place, its summary) is noted."""
    b, summaries, seen = Builder(), [], set()
    for o in json_lines(path):
        if o.get("type") not in ("user", "assistant") or o.get("isSidechain") or o.get("uuid") in seen:
            continue
        seen.add(o.get("uuid"))
        content = o["message"].get("content")
        if o.get("isCompactSummary"):
            b.close()
            summaries.append((len(b.messages), text_of(content)))
            continue
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        texts = [text_of(x) for x in blocks if x.get("type") in ("text", "image")]
        if o["type"] == "assistant":
            b.assistant("\n".join(t for t in texts if t != "(no content)"), [(x["id"], x["name"], x["input"]) for x in blocks if x.get("type") == "tool_use"], o["message"].get("id"))
            continue
        for x in blocks:
            if x.get("type") == "tool_result":
                b.result(x["tool_use_id"], text_of(x.get("content")), bool(x.get("is_error")))
        if texts:
            text = "\n".join(texts)
            by, said = whose(text, o)
            b.user(text, by, said, {k: o[k] for k in ("isMeta", "sourceToolUseID") if k in o})
    yield "", b.done(), summaries


def read_codex(path):
    b = Builder()
    for o in json_lines(path):
        p = o.get("payload") or {}
        kind = p.get("type")
        if o.get("type") != "response_item":
            continue
        if kind == "message" and p["role"] == "assistant":
            b.assistant(text_of(p["content"]))
        elif kind == "message":
            text = text_of(p["content"])
            by, said = whose(text, {})
            b.user(text, by, said) if p["role"] == "user" and by != "harness" else b.system(text)
        elif kind in ("function_call", "custom_tool_call"):
            b.assistant("", [(p["call_id"], p["name"], p.get("arguments") or p.get("input") or "")])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            text = text_of(p.get("output"))
            code = re.search(r"exited with code (-?\d+)", text[:300])
            b.result(p["call_id"], text, code.group(1) != "0" if code else None)
    yield "", b.done(), []


def read_copilot(path):
    b = Builder()
    for o in json_lines(path):
        d, kind = o.get("data") or {}, o.get("type")
        if kind == "system.message":
            b.system(d.get("content") or "")
        elif kind == "user.message":
            b.user(d.get("content") or "")
        elif kind == "assistant.message":
            b.assistant(d.get("content") or "", [(c["toolCallId"], c["name"], c["arguments"]) for c in d.get("toolRequests") or []])
        elif kind == "tool.execution_complete":
            b.result(d["toolCallId"], text_of(d.get("result") or d.get("error")), not d.get("success", True))
    yield "", b.done(), []


def read_pi(path):
    b = Builder()
    for o in json_lines(path):
        m = o.get("message") or {}
        if o.get("type") != "message":
            continue
        if m["role"] == "user":
            b.user(text_of([c for c in m["content"] if c.get("type") == "text"]) if isinstance(m["content"], list) else m["content"])
        elif m["role"] == "assistant":
            b.assistant(text_of([c for c in m["content"] if c.get("type") == "text"]), [(c["id"], c["name"], c["arguments"]) for c in m["content"] if c.get("type") == "toolCall"])
        elif m["role"] == "toolResult":
            b.result(m.get("toolCallId"), text_of(m.get("content")), bool(m.get("isError")))
    yield "", b.done(), []


def read_openhands(path):
    for o in json_lines(path):
        b = Builder()
        for e in o.get("history") or []:
            meta = e.get("tool_call_metadata") or {}
            if "observation" in e and meta:
                b.result(meta["tool_call_id"], e.get("content") or "")
            elif e.get("source") == "user" and e.get("action") == "message":
                b.user(e["args"]["content"])
            elif e.get("source") == "agent" and meta:
                said = meta.get("model_response", {}).get("choices", [{}])[0].get("message", {})
                call = next((c for c in said.get("tool_calls") or [] if c["id"] == meta["tool_call_id"]), None)
                if call:
                    b.assistant(text_of(said.get("content")), [(call["id"], call["function"]["name"], call["function"]["arguments"])])
        yield o.get("instance_id", ""), b.done(), []


def read_swe_agent(path):
    """Yields one session; its shell commands and their output, which it keeps as plain talk, become calls and results."""
    with open(path, encoding="utf8") as f:
        history = json.load(f)["history"]
    b, pending = Builder(), None
    for k, m in enumerate(history):
        if m["role"] == "system":
            b.system(m["content"])
        elif m["role"] == "assistant":
            pending = "s%d" % k
            b.assistant(m.get("thought") or "", [(pending, "shell", {"command": m.get("action") or m["content"]})])
        elif pending:
            b.result(pending, m["content"])
            pending = None
        else:
            b.user(m["content"])
    yield "", b.done(), []


def read_who_and_when(path):
    """Yields one session of an orchestrator that asks other agents: each question and answer becomes a call and its result."""
    with open(path, encoding="utf8") as f:
        history = json.load(f)["history"]
    b, asked = Builder(), None
    for k, m in enumerate(history):
        who, text = m.get("name") or m["role"], m["content"]
        to = re.match(r"Orchestrator \(-> (\w+)\)", who)
        if to:
            asked = (to.group(1), "w%d" % k)
            b.assistant("", [(asked[1], asked[0], {"request": text})])
        elif asked and who.startswith(asked[0]):
            b.result(asked[1], text)
            asked = None
        elif who == "human":
            b.user(text)
        elif who.startswith("Orchestrator"):
            b.assistant(text)
    yield "", b.done(), []


def read_tau_bench(path, together=7):
    """Yields desks that serve some customers in turn: single conversations are too short to be compacted."""
    with open(path, encoding="utf8") as f:
        tasks = json.load(f)
    for at in range(0, len(tasks) - together + 1, together):
        b = Builder()
        for task in tasks[at:at + together]:
            for m in task["traj"]:
                if m["role"] == "system" and not b.messages:
                    b.system(text_of(m["content"]))
                elif m["role"] == "user":
                    b.user(text_of(m["content"]))
                elif m["role"] == "assistant":
                    b.assistant(text_of(m.get("content")), [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls") or []])
                elif m["role"] == "tool":
                    b.result(m["tool_call_id"], text_of(m["content"]))
        yield "desk%d" % (at // together), b.done(), []


def read_aider(path, size=120_000):
    """Yields long chats about code without tools: several recorded chats in a row."""
    with open(path, encoding="utf8") as f:
        chats = f.read().split("# aider chat started at ")[1:]
    b, count, k = Builder(), 0, 0
    for chat in chats:
        asked, answer = [], []
        for line in chat.split("\n")[1:] + ["#### "]:
            if line.startswith("#### "):
                if "".join(answer).strip():
                    if asked:
                        b.user("\n".join(asked))
                        b.assistant("\n".join(answer).strip())
                        count += sum(map(len, asked)) + sum(map(len, answer))
                    asked, answer = [], []
                if not line[5:].startswith("/"):
                    asked.append(line[5:].rstrip())
            elif not line.startswith(">"):
                answer.append(line)
        if count > size:
            yield "chats%d" % k, b.done(), []
            b, count, k = Builder(), 0, k + 1


def read_memorybank(path):
    """Yields a chat of ten days for each person."""
    with open(path, encoding="utf8") as f:
        people = json.load(f)
    for name, person in people.items():
        b = Builder()
        for day in person["history"].values():
            for turn in day:
                b.user(turn["query"])
                b.assistant(turn["response"])
        yield name, b.done(), []


READERS = {"claude-code-jsonl": (read_claude_code, "code"), "codex-rollout-jsonl": (read_codex, "code"), "copilot-events-jsonl": (read_copilot, "code"),
           "pi-session-jsonl": (read_pi, "code"), "openhands-output-jsonl": (read_openhands, "code"), "swe-agent-traj": (read_swe_agent, "code"),
           "who-and-when-json": (read_who_and_when, "research"), "tau-bench-json": (read_tau_bench, "service"), "aider-history-md": (read_aider, "chat"),
           "memorybank-json": (read_memorybank, "chat")}
CHATS = {"memorybank", "aider"}


class Session:
    """One recording: its messages and what is known of it."""

    def __init__(self, name, dataset, kind, messages, summaries, claude):
        self.name, self.dataset, self.kind, self.claude = name, dataset, kind, claude
        first = next((i for i, m in enumerate(messages) if m["role"] == "user" and m["by"] == "person"), 0)
        # What a harness wrote before the person's first words would be pinned in their place.
        skipped = [i for i, m in enumerate(messages[:first]) if m["role"] != "system"]
        self.messages = [m for i, m in enumerate(messages) if i not in skipped]
        self.summaries = [(place - len(skipped), text) for place, text in summaries if place > first]
        self.whole = self.messages
        size = 0
        for i, m in enumerate(self.messages):
            size += len(message_text(m))
            if size > LIMIT:
                self.messages = self.messages[:i]
                break
        self.size = min(size, LIMIT)
        self.listed = sum(c["function"]["name"] in ("TodoWrite", "update_plan") for m in self.messages for c in m.get("tool_calls") or []) > 2

    def cuts(self, shares):
        """Returns (share, place) for each share of the text: places before an agent's message, where all calls have results, and with
        enough messages before them to plant anything between."""
        sizes, total = [], 0
        for m in self.messages:
            sizes.append(total)
            total += len(message_text(m))
        legal = [i for i in range(8, len(self.messages)) if self.messages[i]["role"] == "assistant" and self.messages[i - 1]["role"] in ("user", "tool")]
        found = []
        for share in shares:
            places = [i for i in legal if i not in [p for _, p in found]]
            if places:
                found.append((share, min(places, key=lambda i: abs(sizes[i] - total * share / 100))))
        return found


def load(corpus, datasets=None, smallest=30_000):
    """Returns the recordings of a corpus that are long enough, one dataset after the other in turn, so that few are many kinds."""
    with open(os.path.join(corpus, "MANIFEST.json"), encoding="utf8") as f:
        entries = json.load(f)
    groups = {}
    for e in entries:
        path = os.path.join(corpus, e["file"])
        if e["format"] not in READERS or (datasets and e["dataset"] not in datasets) or not os.path.exists(path) or e["bytes"] < smallest:
            continue
        reader, kind = READERS[e["format"]]
        for part, messages, summaries in reader(path):
            s = Session(os.path.basename(e["file"])[:24] + ("#" + part if part else ""), e["dataset"], kind, messages, summaries, e["format"] == "claude-code-jsonl")
            people = sum(m["role"] == "user" for m in s.messages)
            if s.size >= smallest and people and len(s.messages) > 20:
                groups.setdefault(e["dataset"], []).append(s)
    for name, group in groups.items():
        # Those with a task list and the long ones come first; the order is the same in each run.
        group.sort(key=lambda s: (not s.listed, -s.size // 100_000, s.name))
    turn = [n for name in sorted(groups) for n in [name] * {"claude-code-entireio-cli": 3, "codex-agentv": 2}.get(name, 1)]
    order = []
    while any(groups.values()):
        order += [groups[n].pop(0) for n in turn if groups[n]]
    return order


def plain(messages):
    """Returns the messages without the judge's own keys."""
    kept = []
    for m in messages:
        p = {k: m[k] for k in ("role", "content", "tool_calls", "tool_call_id") if k in m}
        if p["role"] == "assistant" and not p["content"]:
            p["content"] = None
        kept.append(p)
    return kept


def write(path, messages, claude):
    """Writes messages for `forge`: as Claude Code's own records where they came from there, so that their marks stay, or as OpenAI's."""
    with open(path, "w", encoding="utf8") as f:
        if not claude:
            json.dump({"messages": plain(messages)}, f, ensure_ascii=False)
            return
        parent = None
        for k, m in enumerate(messages):
            role = "assistant" if m["role"] == "assistant" else "user"
            if m["role"] == "tool":
                content = [{"type": "tool_result", "tool_use_id": m["tool_call_id"], "content": m["content"], "is_error": bool(m.get("failed"))}]
            elif role == "user":
                content = m["content"]
            else:
                content = [{"type": "text", "text": m["content"]}] if m["content"] else []
                content += [{"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": json.loads(c["function"]["arguments"])} for c in m.get("tool_calls") or []]
            record = dict(m.get("native") or {}, type=role, uuid="00000000-0000-4000-8000-%012d" % k, parentUuid=parent, isSidechain=False, userType="external",
                          sessionId="00000000-0000-4000-8000-000000000000", version="2.1.17", cwd="/repo", timestamp="2026-01-01T%02d:%02d:%02d.000Z" % (k // 3600 % 24, k // 60 % 60, k % 60))
            record["message"] = {"role": role, "content": content}
            if role == "assistant":
                record["message"].update(id="msg_%06d" % k, type="message", model="claude-opus-4-5", stop_reason=None, usage={"input_tokens": 0, "output_tokens": 0})
            parent = record["uuid"]
            f.write(json.dumps(record, ensure_ascii=False) + "\n")
