"""What is asked of a view. Each function says what a reader of the view needs it for, and returns a number, or None where the session
has nothing to ask about."""
import collections, json, lzma, re

from policies import task_list
from recordings import full_text, message_text, text_of

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(r"[%s]|[^\W_]+" % CJK)
NUMBERED = re.compile(r"^\s*\d+\s*[→\t|:]\s?", re.M)
LABEL = re.compile(r"\bm\d+\b")


def squeeze(text):
    return " ".join(text.split())


def words(text):
    return [w.lower() for w in WORD.findall(text)]


class View:
    """A view and what is asked of it again and again: its text, its lines, its word runs, and the text that no message had before."""

    def __init__(self, messages, task):
        self.messages = messages
        self.text = full_text(messages)
        self.squeezed = squeeze(self.text)
        self.lines = self.text.split("\n")
        self.record = record(messages, task.messages)

    def has(self, text):
        return squeeze(text) in self.squeezed

    def runs(self):
        if not hasattr(self, "_runs"):
            w = words(self.text)
            self._runs = {tuple(w[i:i + 5]) for i in range(len(w) - 4)}
        return self._runs


def record(messages, originals):
    """Returns the text that the compaction wrote itself: what is left of user and system messages without what was there before."""
    before = {text_of(m.get("content")) for m in originals}
    starts = {b[:60] for b in before}
    long = sorted((b for b in before if len(b) > 30), key=len, reverse=True)
    new = []
    for m in messages:
        text = text_of(m.get("content"))
        if m["role"] not in ("user", "system", "developer") or text in before:
            continue
        for b in long:
            if text.startswith(b) or text.endswith(b):
                text = text.replace(b, "\n")
        if text.strip() and text[:60] not in starts:
            new.append(text.strip())
    return "\n".join(new)


# --- planted facts

def statements(view, planted):
    """Share of the person's short statements, verbatim: who takes over must not ask again what was told."""
    return mean([view.has(s) for s in planted.statements])


def conclusions(view, planted):
    """Share of the agent's conclusions, verbatim: what was found out must not be found out twice."""
    return mean([view.has(c) for c in planted.conclusions])


def line_stands(view, key, value):
    pattern = re.compile(r"(?<![\w-])%s(?![\w-])" % re.escape(key))
    return any(str(value) in line and pattern.search(line) for line in view.lines if key in line)


def asked_line(view, planted):
    """The one line that the newest request or the newest call names: the answer to the question at hand."""
    key, value, _ = planted.lines[planted.asked]
    return float(line_stands(view, key, value))


def other_lines(view, planted):
    """Share of the lines of the same kind that no message asks for: what a view spends on noise, and the chance level of `asked_line`."""
    return mean([line_stands(view, k, v) for n, (k, v, _) in enumerate(planted.lines) if n != planted.asked])


def findable(view, planted):
    """Share of all lines in view or one aimed recall away: a line of the view names the key, and the message's label or the file."""
    found = []
    for key, value, path in planted.lines:
        stands = line_stands(view, key, value)
        found.append(stands or any(key in line and (path in line or LABEL.search(line)) for line in view.lines if key in line))
    return mean(found)


# --- the person, the agent, the plan

def people(task):
    """Returns the places of what the person said, in order."""
    return [i for i, m in enumerate(task.messages) if m["role"] == "user" and m.get("by") == "person" and m.get("said")]


def covered(view, text):
    """Returns the share of a text's runs of five words that the view has; a short text is there whole or not at all."""
    w = words(text)
    if len(w) < 8:
        return float(view.has(text))
    runs = [tuple(w[i:i + 5]) for i in range(len(w) - 4)]
    have = view.runs()
    return sum(r in have for r in runs) / len(runs)


def short_messages(view, task):
    """Share of the person's real messages of at most 600 characters between the first and the last, verbatim."""
    asked = [task.messages[i]["said"] for i in people(task)[1:-1]]
    return mean([view.has(t) for t in asked if 12 <= len(t) <= 600])


def latest_words(view, task):
    """Words of the person's latest message: the request at hand."""
    who = people(task)
    return covered(view, task.messages[who[-1]]["said"]) if len(who) > 1 else None


def earlier_words(view, task):
    """Words of all the person's messages between the first and the latest: orders and facts that still hold."""
    return mean([covered(view, task.messages[i]["said"][:4000]) for i in people(task)[1:-1]])


def antecedent(view, task):
    """Words of the agent right before the latest request: "go ahead" and "the second one" refer to them."""
    who = people(task)
    if len(who) < 2:
        return None
    text = next((m["content"] for m in reversed(task.messages[:who[-1]]) if m["role"] == "assistant" and m["content"]), None)
    return covered(view, text[:4000]) if text else None


def last_texts(view, task):
    """Words of the agent's last three texts: where the work stands, in its own words."""
    texts = [m["content"] for m in task.messages if m["role"] == "assistant" and m["content"]][-3:]
    return mean([covered(view, t[:4000]) for t in texts])


DONE = {"completed": r"completed|done|finished|\[x\]|✔|✓|☑|☒", "in_progress": r"in.?progress|current|doing|now|\[~\]|\[>\]|\[-\]|▶|→|◐", "pending": r"pending|open|to.?do|next|\[ \]|☐|○"}


def tasks(view, task):
    """Share of the items of the agent's task list that stand with their status in the same line or next to it."""
    found = []
    for item, status in task_list(task.messages):
        near = [view.text[max(0, m.start() - 60):m.end() + 60] for m in re.finditer(re.escape(item), view.text)]
        pattern = re.compile(DONE.get(status, re.escape(status)), re.I)
        found.append(any(pattern.search(n.replace(item, " ")) for n in near))
    return mean(found)


# --- the record itself

def content_lines(view):
    """Yields the record's lines of content: no headings, no labels, no tags, no line numbers in front."""
    for line in view.record.split("\n"):
        line = NUMBERED.sub("", line).strip()
        if not line or line.startswith(("#", "<record", "</record", "```")) or re.fullmatch(r"[-*]?\s*m\d+\b[^:]{0,80}:", line):
            continue
        yield line


def bare_lines(view, task):
    """Share of the record's lines that are one word, one number or mere marks: they tell a reader nothing."""
    found = list(content_lines(view))
    return mean([len(re.findall(r"[\w./\\:@-]*\w[\w./\\:@-]*", line)) <= 1 and len(words(line)) <= 4 for line in found]) if len(found) >= 5 else None


SAID = re.compile(r"^[-*\s>]*\[?m\d+\]?[\s,:(]*(?:the\s+)?(?:user|person|human)\b[^:\n]{0,30}:\s*(.*)$", re.I)
PERSON_HEADING = re.compile(r"^#+\s.*\b(user|person|human|asked|said|request)", re.I)


def person_lines(view):
    """Yields the record's lines that stand under the person's name: after a label or a heading that names the person."""
    under = heading = False
    for line in view.record.split("\n"):
        if line.startswith("#") or line.startswith("<"):
            heading = under = bool(PERSON_HEADING.match(line))
            continue
        said = SAID.match(line)
        if said:
            under = True
            line = said.group(1)
        elif re.match(r"^[-*\s]*\[?m\d+\]?\b", line):
            # A label of another message; under the person's heading, labels are the person's.
            under = heading and not re.search(r"\b(assistant|agent|tool|call)\b", line[:40])
            line = re.sub(r"^[-*\s]*\[?m\d+\]?[\s:,.-]*", "", line)
        if under and len(words(line)) > 1 and not line.strip().startswith(("[", "(", "…")):
            yield line.strip().strip('"“”').lstrip("-*> ").strip()


def person_said(view, task):
    """Share of the lines under the person's name that a person said: a harness' words must not become orders."""
    said = squeeze("\n".join(m.get("said") or m["content"] for m in task.messages if m["role"] == "user" and m.get("by") != "harness"))
    return mean([all(squeeze(part) in said for part in re.split(r"…|\.\.\.", line) if len(part.strip()) > 2) for line in person_lines(view)])


TEST = re.compile(r"\b(test|pytest|check|lint|clippy|build|vet|tsc|compile|fmt)\b")
BAD = re.compile(r"\bFAIL|\bfailed\b|\berror\b[:\[ ]|Error:|Traceback|panicked|exit(?:ed with)? code [1-9]", re.I)


GOES_ON = re.compile(r"(?im)^.{0,20}\brunning\b.{0,20}\b(session|background|id)\b")


def commands(task):
    """Returns for each result its command, its text and whether it went well: a command that goes on has not yet."""
    calls, found = {}, []
    for i, m in enumerate(task.messages):
        for c in m.get("tool_calls") or []:
            try:
                a = json.loads(c["function"]["arguments"])
            except ValueError:
                a = {}
            a = a if isinstance(a, dict) else {}
            command = a.get("command") or a.get("cmd")
            calls[c["id"]] = re.sub(r"^(cd \S+ *(&&|;) *|\w+=\S+ )+", "", command) if isinstance(command, str) else "%s %s" % (c["function"]["name"], a.get("file_path") or a.get("path") or "")
        if m["role"] == "tool":
            well = not m.get("failed") and not BAD.search(m["content"]) and not GOES_ON.search(m["content"][:400])
            found.append((i, calls.get(m["tool_call_id"], ""), m["content"], well))
    return found


def standing_lines(view):
    """Yields the record's lines under a heading that says that errors stand."""
    under = False
    for line in view.record.split("\n"):
        if line.startswith("#"):
            under = bool(re.search(r"\b(error|fail|problem)", line, re.I)) and not re.search(r"\b(fixed|resolved|past)\b", line, re.I)
        elif under and len(words(line)) > 1:
            yield re.sub(r"^[-*\s]*(\[?m\d+\]?[^:]{0,40}:\s*)?", "", line).strip()


def fixed_errors(view, task):
    """Share of the errors that the record calls standing although the same command or check passed later: a reader would fix them twice."""
    ran, found = commands(task), []
    for line in standing_lines(view):
        line = squeeze(line.rstrip("…"))[:120]
        at = [k for k, (_, _, text, _) in enumerate(ran) if line in squeeze(text)]
        if not at:
            continue
        command = ran[at[-1]][1]
        kind = lambda c: " ".join(c.split()[:2])
        later = [c for _, c, _, well in ran[at[-1] + 1:] if well and (kind(c) == kind(command) or (TEST.search(c) and TEST.search(command) and c.split()[:1] == command.split()[:1]))]
        found.append(bool(later))
    return mean(found)


NAME = re.compile(r"(?<!\w)(?:[A-Za-z_][\w-]*(?:[./\\][\w-]+)+|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+)")
COLOUR = re.compile(r"(?:\x1b|\\x1b|\\u001b|\\033)?\[[0-9;]*m")


def invented(view, task):
    """Counts names in the record that the input never had, cut words and eaten escapes among them: a reader would look for them in vain."""
    if not view.record:
        return None
    source, text = (COLOUR.sub(" ", t) for t in (full_text(task.messages), view.record))
    whole = set(re.findall(r"\w+", source))
    missing = set()
    for m in NAME.finditer(text):
        name, near = m.group(), text[max(0, m.start() - 2):m.end() + 3]
        if "…" in near or "..." in near:
            continue
        # The letter of an escape that stands as it was is no part of the name.
        spelled = [name] + ([name[1:]] if text[m.start() - 1:m.start()] == "\\" and name[0] in "nrt" else [])
        if not any(n in source and set(re.findall(r"\w+", n)) <= whole for n in spelled) and not re.search(r"(?<!\w)\\[nrt]" + re.escape(name), source):
            missing.add(name)
    return missing


# --- the future

LZ = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 23}]


def packed(text):
    return len(lzma.compress(text.encode("utf8", "replace"), lzma.FORMAT_RAW, filters=LZ))


class Future:
    """What the agent really did in its next turns, and what it needed for that."""

    def __init__(self, session, cut, turns=8):
        self.later = session.messages[cut:]
        own = [m for m in self.later if m["role"] == "assistant"][:turns]
        self.text = full_text(own)
        before = session.messages[:cut]
        first = next(i for i, m in enumerate(before) if m["role"] == "user")
        pinned = before[:first + 1]
        self.pinned = full_text(pinned)
        self.full = full_text(before)
        self.floor, self.ceiling = self.cost(self.pinned), self.cost(self.full)
        self.needed = self.find_needed(before)
        self.facts = self.find_facts(own)
        clean = "\n".join(NUMBERED.sub("", self.full).split("\n"))
        self.edits = []
        for m in self.later[:40]:
            for c in m.get("tool_calls") or []:
                try:
                    a = json.loads(c["function"]["arguments"])
                except ValueError:
                    continue
                for e in [a] + (a.get("edits") or []) if isinstance(a, dict) else []:
                    old = next((e[k] for k in ("old_string", "oldText", "old_str") if isinstance(e, dict) and e.get(k)), None)
                    if isinstance(old, str) and len(old) > 20 and old in clean and old not in self.pinned:
                        self.edits.append(old)

    def find_facts(self, own):
        """Returns (name or number, other rare words) of the sentences in which the agent uses what only the past tells."""
        rare = collections.Counter(ID.findall(self.full))
        plain, lower, found = collections.Counter(words(self.full)), self.full.lower(), []
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", "\n".join(m["content"] or "" for m in own)):
            for fact in [n for n in ID.findall(sentence) if 0 < rare[n] <= 6 and n not in self.pinned][:1]:
                cue = sorted({w for w in words(sentence.replace(fact, " ")) if len(w) > 3 and plain[w] > 0}, key=lambda w: (plain[w], w))[:4]
                spots = [lower[max(0, m.start() - 300):m.end() + 300] for m in re.finditer(re.escape(fact.lower()), lower)]
                if len(cue) == 4 and any(sum(w in near for w in cue) * 2 >= len(cue) for near in spots):
                    found.append((fact, cue))
        return found[:30]

    def cost(self, context):
        return packed(context + "\n" + self.text) - packed(context)

    def find_needed(self, before):
        """Returns the names of the past that the agent writes before anybody shows them again."""
        past, pinned, shown, needed = set(ID.findall(self.full)), set(ID.findall(self.pinned)), set(), []
        for m in self.later[:60]:
            names = ID.findall(message_text(m))
            if m["role"] == "assistant":
                needed += [n for n in names if n in past and n not in pinned and n not in shown and n not in needed]
            shown.update(names)
        return needed[:60]


ID = re.compile(r"(?<![\w/])/?[\w.-]+(?:/[\w.-]+)+|\b[A-Za-z]\w*_\w+\b|\b[a-z]+[A-Z]\w+\b|\b[A-Z][a-z0-9]+[A-Z]\w+\b|\b[\w-]+\.[a-z]{1,4}\b|\b\d{4,}\b")
PLAIN = re.compile(r"(?<![\w./\\-])[A-Za-z]?[a-z]{2,}(?![\w/\\-])")


def information(view, future):
    """Bits that the view saves in writing down the agent's true next turns, between the pinned messages alone (0) and everything (1)."""
    if future.floor - future.ceiling < 150:
        return None
    return (future.floor - future.cost(view.text)) / (future.floor - future.ceiling)


def needed_names(view, future):
    """Share of the names that the agent needs next which stand in a line with three ordinary words: a name that says what it is for."""
    found = []
    for name in future.needed:
        found.append(any(len(set(PLAIN.findall(line.replace(name, " ")))) >= 3 for line in view.lines if name in line))
    return mean(found) if len(found) >= 3 else None


def later_facts(view, future):
    """Share of the facts that the agent states afterwards in a sentence of its own which the view can tell: the rare name or number of the
    sentence stands within 300 characters of half of the sentence's other rare words, as it once did in the full text."""
    found = []
    for fact, cue in future.facts:
        spots = [view.text[max(0, m.start() - 300):m.end() + 300] for m in re.finditer(re.escape(fact), view.text)]
        found.append(any(sum(w in near for w in cue) * 2 >= len(cue) for near in map(str.lower, spots)))
    return mean(found) if len(found) >= 2 else None


def edit_sources(view, future):
    """Share of the texts that the agent's next edits replace, verbatim: without them it must read the file again."""
    clean = NUMBERED.sub("", view.text)
    # A record may indent what it quotes.
    forms = [clean, re.sub(r"^ {2}", "", clean, flags=re.M), re.sub(r"^ {4}", "", clean, flags=re.M)]
    return mean([any(old in form for form in forms) for old in future.edits])


def mean(values):
    values = [float(v) for v in values if v is not None]
    return sum(values) / len(values) if values else None
