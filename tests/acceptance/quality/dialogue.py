"""Chats: rare facts that were said once, asked for in other words of the same turn."""
import collections, math, random, re

import measures, policies
from recordings import full_text, message_text

TERM = re.compile(r"(?=([%s]{2}))|[^\W_]+" % measures.CJK)


def terms(text):
    """Returns (place, term) for each word, and each pair of characters where a language writes no spaces."""
    return [(m.start(), (m.group(1) or m.group()).lower()) for m in TERM.finditer(text) if m.group(1) or not re.match("[%s]" % measures.CJK, m.group())]


def names(text):
    return {t for _, t in terms(text)}


class Facts:
    """Questions about a chat: (the place of the turn, the fact, cue words of the same turn), and how rare each word is."""

    def __init__(self, messages, rng, most=12):
        self.turns = [m["content"] or "" for m in messages]
        self.df = collections.Counter(w for t in self.turns for w in names(t))
        self.total = len(self.turns)
        found = []
        for i, text in enumerate(self.turns[1:-2], 1):
            if messages[i]["role"] == "tool" or len(text) > 3000:
                continue
            # The fact is a name, a number or a long word that was said once; the question has other words of the turn.
            named = {w.lower() for w in re.findall(r"(?<=[a-z,] )[A-Z][a-z]{2,}", text)}
            once = [w for w in names(text) if self.df[w] == 1 and (w in named or len(w) > 7 or not w.isascii() or w.isdigit())]
            others = sorted((w for w in names(text) if w not in once), key=lambda w: (self.df[w], w))
            if once and len(others) >= 4:
                found.append((i, rng.choice(sorted(once)), others[:5]))
        self.asked = sorted(rng.sample(found, min(most, len(found))))

    def idf(self, word):
        return math.log((self.total + 1) / (self.df[word] + 0.5))

    def kept(self, text, view):
        """Checks whether one window of 400 characters of the view has 60 % of a turn's weight in rare words."""
        want = {w: self.idf(w) for w in names(text[:2000])}
        # A turn longer than the window is asked for its best window.
        best = self.weight(text, want, 400) if len(text) > 400 else sum(want.values())
        return self.weight(view, want, 400) >= 0.6 * best

    @staticmethod
    def weight(text, want, width):
        hits = [(at, w) for at, w in terms(text) if w in want]
        best, low, here, count = 0, 0, 0.0, collections.Counter()
        for at, w in hits:
            count[w] += 1
            here += want[w] if count[w] == 1 else 0
            while hits[low][0] < at - width:
                v = hits[low][1]
                count[v] -= 1
                here -= want[v] if count[v] == 0 else 0
                low += 1
            best = max(best, here)
        return best


def random_turns(task, rng):
    """Keeps turns drawn at random: the chance level."""
    groups, kept, left = task.groups(), {}, task.room
    rng.shuffle(groups)
    for group in groups:
        cost = sum(task.count(task.messages[i]) for i in group)
        if cost <= left:
            left -= cost
            kept.update((i, task.messages[i]) for i in group)
    return task.head() + [kept[i] for i in sorted(kept)]


def idf_density(task, facts):
    """Keeps the sentences with the most weight in rare words for their length: what is cheaply possible without the question."""
    rows, left = [], task.room - 8
    for i, m in enumerate(task.messages):
        if i not in task.pinned:
            rows += [(i, k, s) for k, s in enumerate(re.split(r"(?<=[.!?。！？])\s*|\n+", m["content"] or "")) if s.strip()]
    score = lambda s: sum(facts.idf(w) for w in names(s)) / (6 + policies.pieces(s))
    kept = []
    for row in sorted(rows, key=lambda r: -score(r[2])):
        cost = policies.pieces(row[2] + "\n") * task.scale
        if cost <= left:
            left -= cost
            kept.append(row)
    return task.head() + [{"role": "user", "content": "\n".join(s for _, _, s in sorted(kept))}]


def judge(session, forge, judged, seed, budget=20):
    """Returns {policy: {measure: value}} for one chat: the share of turns kept when no message asks, and when the last message asks."""
    messages = session.messages[:len(session.messages) // 2 * 2]
    while messages and messages[-1]["role"] != "user":
        messages = messages[:-1]
    rng = random.Random("%s %s" % (seed, session.name))
    facts = Facts(messages, rng)
    if not facts.asked:
        return {}
    task = policies.Task(messages, session.claude, forge, budget)
    out = {}
    for name in judged:
        view, _ = policies.run(name, task)
        out[name] = {"dialogue_evidence": score(facts, view)}
    out["random"] = {"dialogue_evidence": measures.mean([score(facts, policies.filled("random", lambda t: random_turns(t, rng), task)[0]) for _ in range(5)])}
    out["idf_density"] = {"dialogue_evidence": score(facts, policies.filled("idf_density", lambda t: idf_density(t, facts), task)[0])}
    for name in judged:
        hits = []
        for i, fact, cue in facts.asked[::3]:
            question = "What was it again that we said about %s?" % ", ".join(cue)
            end = [{"role": "assistant", "content": "All right."}, {"role": "user", "content": question, "by": "person", "said": question}]
            view, _ = policies.run(name, policies.Task(messages + end, session.claude, forge, budget, task.base))
            # The question itself is no evidence.
            hits.append(view is not None and facts.kept(facts.turns[i], full_text(view).replace(question, "")))
        out[name]["dialogue_asked"] = measures.mean(hits)
    return out


def score(facts, view):
    text = full_text(view or [])
    return measures.mean([facts.kept(facts.turns[i], text) for i, _, _ in facts.asked])
