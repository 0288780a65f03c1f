"""What is compared: `forge` as a black box, and cheap policies that show what is possible without it.

A policy takes a Task and returns the view: messages of at most `task.limit` tokens, the pinned ones free as for all.
"""
import collections, functools, json, math, os, re, subprocess, tempfile

import recordings
from recordings import message_text, text_of

PIECE = re.compile(r"[A-Za-z]+|[0-9]{1,3}|[^\x00-\x7f]|[^\sA-Za-z0-9]|\n+[ \t]*|[ \t]{2,}")


@functools.lru_cache(200_000)
def pieces(text):
    """Returns a rough count of tokens: words by length, digits by threes, marks and other scripts one by one."""
    n = 0.0
    for p in PIECE.findall(text):
        n += max(1, (len(p) + 2) // 7) if p[0].isascii() and p[0].isalpha() else 0.7 if not p.isascii() else 0.85
    return n


def size(m):
    """Returns the rough count of a message."""
    return 4 + pieces(text_of(m.get("content"))) + sum(4 + pieces(c["function"]["name"]) + pieces(c["function"]["arguments"]) for c in m.get("tool_calls") or [])


# Most attempts of a rough policy to fill its room.
MOST_TRIES = 4


class Forge:
    """The program under test, run in an empty home, without credentials, in a temporary folder."""

    def __init__(self, program, folder):
        self.program, self.folder = os.path.abspath(program), folder
        for name in ("home", "tmp"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        self.env = {"PATH": "/usr/bin:/bin", "HOME": folder + "/home", "TMPDIR": folder + "/tmp", "LANG": "C.UTF-8"}

    def compact(self, messages, claude, limit, strategy=None):
        """Returns (view or None, report). The input is written in the format it was recorded in."""
        source = os.path.join(self.folder, "in.jsonl" if claude else "in.json")
        out, report = self.folder + "/out.json", self.folder + "/report.json"
        recordings.write(source, messages, claude)
        for path in (out, report):
            if os.path.exists(path):
                os.remove(path)
        command = [self.program, "compact", source, "--from", "claude-code" if claude else "openai", "--to", "openai", "--max-tokens", str(int(limit)), "--output", out, "--report", report]
        command += ["--strategy", strategy] if strategy else []
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=300)
        try:
            with open(report, encoding="utf8") as f:
                told = json.load(f)
            with open(out, encoding="utf8") as f:
                view = json.load(f)["messages"]
        except (OSError, ValueError):
            return None, {"error": done.stderr[-400:]}
        return view, told

    def live(self, messages, claude, window, limit):
        """Returns (view or None, number of compactions) of an agent with such a window that lives through the messages, and fits them to
        `limit` in the end."""
        source, out = os.path.join(self.folder, "in.jsonl" if claude else "in.json"), self.folder + "/out.json"
        store = "sqlite://%s/runs.db" % tempfile.mkdtemp(dir=self.folder)
        # Only what an answer follows has been sent to a model.
        answer = [{"role": "assistant", "content": "Yes."}] if messages[-1]["role"] == "user" else []
        recordings.write(source, messages + answer, claude)
        replay = [self.program, "replay", source, "--window", str(window), "--store", store, "--json"]
        fit = [self.program, "compact", "--run", "last", "--store", store, "--max-tokens", str(limit), "--output", out]
        try:
            told, _ = [subprocess.run(c, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=600, check=True).stdout for c in (replay, fit)]
            with open(out, encoding="utf8") as f:
                view = json.load(f)
            return view["messages"] if isinstance(view, dict) else view, len(json.loads(told)["compactions"])
        except (OSError, ValueError, KeyError, subprocess.CalledProcessError):
            return None, 0

    def count(self, messages):
        """Returns the tokens of messages as the program counts them; `None` if it cannot read them."""
        return self.compact(messages, False, 100_000_000)[1].get("tokens_before")


class Task:
    """One compaction: messages, and the room that is left for what is not pinned, in forge's tokens."""

    def __init__(self, messages, claude, forge, budget, base=None):
        self.messages, self.claude, self.forge = messages, claude, forge
        first = next(i for i, m in enumerate(messages) if m["role"] == "user")
        self.pinned = [i for i, m in enumerate(messages) if i == first or (m["role"] == "system" and i < first)]
        if base is None:
            _, report = forge.compact(messages, claude, 100_000_000)
            rough = sum(map(size, messages))
            total = report.get("tokens_before") or rough
            # The rough count is scaled to forge's, session by session, and then policy by policy.
            base = (total, total / rough, {})
        self.base = base
        self.total, self.scale, self.factors = base
        self.fixed = forge.count(self.head()) or 3 + sum(map(self.count, self.head()))
        self.limit_to(max(200, (self.total - self.fixed) * budget / 100))

    def limit_to(self, room):
        """Sets the room beside what is pinned."""
        self.room, self.limit = room, int(self.fixed + room)

    def count(self, m):
        return size(m) * self.scale

    def groups(self):
        """Returns the messages that are not pinned as lists of places that stay together: a call with its results."""
        found = []
        for i, m in enumerate(self.messages):
            if i in self.pinned:
                continue
            if m["role"] == "tool" and found:
                found[-1].append(i)
            else:
                found.append([i])
        return found

    def head(self):
        return [self.messages[i] for i in self.pinned]


def clip(text, tokens, scale):
    """Returns head and tail of a text."""
    if pieces(text) * scale <= tokens:
        return text
    chars = max(20, int(len(text) * tokens / (pieces(text) * scale) * 0.95))
    return text[:chars * 2 // 3] + "\n…\n" + text[-(chars // 3):]


def newest(task, room):
    """Returns (places of the newest groups that fit, their messages); the group that no longer fits is shortened."""
    kept, left = {}, room
    for group in reversed(task.groups()):
        cost = sum(task.count(task.messages[i]) for i in group)
        if cost > left:
            results = [i for i in group if task.messages[i]["role"] == "tool"]
            fixed = cost - sum(task.count(task.messages[i]) - 4 for i in results)
            if not results and not task.messages[group[0]].get("tool_calls") and left > 60:
                kept[group[0]] = dict(task.messages[group[0]], content=clip(task.messages[group[0]]["content"], left - 10, task.scale))
            elif results and left - fixed > 60 * len(results):
                for i in group:
                    m = task.messages[i]
                    kept[i] = dict(m, content=clip(m["content"], (left - fixed) / len(results) - 8, task.scale)) if i in results else m
            break
        left -= cost
        kept.update((i, task.messages[i]) for i in group)
    return kept


def filled(name, policy, task):
    """Returns (view, tokens) of a policy that fills the limit as the program counts it: policies count roughly while they choose."""
    room, best = task.room, None
    for nth in range(MOST_TRIES):
        task.room = room * task.factors.get(name, 1)
        view = policy(task)
        used = task.forge.count(view)
        if used is None:
            break
        if used <= task.limit and (best is None or used > best[1]):
            best = view, used
        # Whole messages seldom fill a room exactly, so one more attempt is enough for what fits.
        if room * 0.98 <= used - task.fixed <= room or (best and nth > 0):
            break
        # A little less than what would be right, so that the next one fits.
        task.factors[name] = min(1.5, max(0.5, 0.995 * task.room / max(1, used - task.fixed)))
    task.room = room
    return best or (task.head(), task.fixed)


def keep_last(task):
    """Keeps the newest messages, calls with their results; the first that does not fit is shortened."""
    kept = newest(task, task.room)
    return task.head() + [kept[i] for i in sorted(kept)]


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}|[0-9]{4,}")


def source_lines(task, room, skip):
    """Returns the lines that have the most rare names for their length, in order, until the room is full."""
    rows, df = [], collections.Counter()
    for i, m in enumerate(task.messages):
        if i in skip or i in task.pinned:
            continue
        for line in message_text(m).split("\n"):
            names = set(NAME.findall(line))
            df.update(names)
            if names and len(line) < 600:
                rows.append((len(rows), line.strip(), names))
    total, have, out, left = max(2, len(rows)), set(), [], room
    ranked = sorted(rows, key=lambda r: -sum(math.log(total / df[n]) for n in r[2]) / (8 + len(r[1])))
    for k, line, names in ranked:
        if not names - have:
            continue
        cost = pieces(line + "\n") * task.scale
        if cost > left:
            if left < 15:
                break
            continue
        left -= cost
        have |= names
        out.append((k, line))
    return "\n".join(line for _, line in sorted(out))


def lines(task):
    """Keeps 40 % newest messages and single lines: those with the most rare names for their length, once per name."""
    kept = newest(task, task.room * 0.4)
    rest = task.room - sum(task.count(m) for m in kept.values()) - 8
    note = {"role": "user", "content": "Lines of earlier messages:\n" + source_lines(task, rest, kept)}
    return task.head() + [note] + [kept[i] for i in sorted(kept)]


def brief(task):
    """A reference, not a product: the person's words, the task list, the agent's last texts, 30 % newest messages, then single lines."""
    kept = newest(task, task.room * 0.3)
    room = task.room - sum(task.count(m) for m in kept.values()) - 20
    people = [i for i, m in enumerate(task.messages) if m["role"] == "user" and m.get("by") == "person" and i not in task.pinned and i not in kept]
    agent = [i for i, m in enumerate(task.messages) if m["role"] == "assistant" and m["content"] and i not in kept]
    before = [i for i in agent if people and i < max([k for k, m in enumerate(task.messages) if m["role"] == "user" and m.get("by") == "person"])]
    wanted = [(i, task.messages[i].get("said")) for i in reversed(people)]
    wanted += [(i, task.messages[i]["content"]) for i in before[-1:] + agent[-6:][::-1]]
    note, have = {}, set()
    todo = task_list(task.messages)
    plan = "\n".join("[%s] %s" % (status, item) for item, status in todo)
    room -= pieces(plan) * task.scale
    for i, text in wanted:
        text = clip(text, max(60, room * 0.5), task.scale)
        cost = (pieces(text) + 8) * task.scale
        if i not in have and cost < room:
            have.add(i)
            note[i] = "m%d %s:\n%s" % (i, "user" if task.messages[i]["role"] == "user" else "agent", text)
            room -= cost
    text = "\n".join([note[i] for i in sorted(note)] + ([plan] if plan else []) + ["# Lines", source_lines(task, room - 10, set(kept) | have)])
    return task.head() + [{"role": "user", "content": text}] + [kept[i] for i in sorted(kept)]


def task_list(messages):
    """Returns the agent's newest list of tasks as (item, status), from TodoWrite or update_plan calls."""
    for m in reversed(messages):
        for c in reversed(m.get("tool_calls") or []):
            if c["function"]["name"] in ("TodoWrite", "update_plan"):
                try:
                    a = json.loads(c["function"]["arguments"])
                except ValueError:
                    continue
                items = a.get("todos") or a.get("plan") or []
                if isinstance(items, list):
                    return [(t.get("content") or t.get("step"), t["status"]) for t in items if isinstance(t, dict) and t.get("status") and (t.get("content") or t.get("step"))]
    return []


def none(task):
    """Keeps the pinned messages alone."""
    return task.head()


def everything(task):
    """Keeps all: the upper end, for the controls."""
    return task.messages


SIMPLE = {f.__name__: f for f in (keep_last, lines, brief, none, everything)}


def run(name, task):
    """Returns (view, tokens used) of a policy; `forge` or `forge:STRATEGY` is run as a program."""
    if name.split(":")[0] != "forge":
        if name in ("none", "everything"):
            return SIMPLE[name](task), task.limit
        return filled(name, SIMPLE[name], task)
    strategy = name[6:] or None
    view, report = task.forge.compact(task.messages, task.claude, task.limit, strategy)
    return view, report.get("tokens_after", 0) if view else report
