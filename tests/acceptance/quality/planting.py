"""Facts planted into a recorded session, with words drawn from a seed: what the person said, lines that a tool showed, and what
the agent concluded. The judge knows where each is, so it can ask for it afterwards."""
import json, random

import recordings

# {a}, {b} are drawn names. None is worded as an order, none has a word that marks importance.
STATEMENTS = [
    ("English", "The staging machine is called {a} since Monday, {b} was switched off."),
    ("English", "No, the other way round: first {a}, then {b}."),
    ("German", "Der Testserver heißt jetzt {a}, früher war das {b}."),
    ("French", "La base de démonstration se trouve maintenant chez {a}, à côté de {b}."),
    ("Spanish", "El equipo de {a} ya terminó la parte de {b} la semana pasada."),
    ("Czech", "Ten soubor od {a} už máme, {b} ho poslala včera."),
    ("Portuguese", "O cliente {a} mudou para o plano {b} em março."),
    ("Polish", "Nasz adres zapasowy to teraz {a}, a {b} odpada."),
    ("Turkish", "Yeni sunucunun adı {a}, eskisi {b} idi."),
    ("Chinese", "部署机器是 {a}，不是 {b}。"),
    ("Japanese", "本番のサーバー名は {a} で、{b} は古い方です。"),
    ("Korean", "데모 계정은 {a} 이고 {b} 는 예전 것입니다."),
    ("Arabic", "اسم الخادم الجديد هو {a} وكان سابقا {b}."),
    ("Russian", "Заказчик теперь {a}, а {b} ушёл в другой отдел."),
    ("Hindi", "नया सर्वर {a} है, पुराना {b} था।"),
]
THANKS = ["Good to know.", "All right, thanks.", "I see.", "Thank you, noted."]
CONCLUSIONS = [
    "So {a} only reads the cache that {b} fills; nothing else writes to it. That explains why the second start is slower than the first.",
    "The cause is clear now: {a} closes the handle before {b} has flushed it. A retry would only hide this.",
    "I compared both ways, and {a} gives the same rows as {b} with half of the queries. I will continue with {a}.",
    "It turns out that {a} was renamed to {b} two releases ago. The old name still works, with a warning.",
    "Both failures have one origin, {a} in the loader. {b} is a bystander.",
    "There is no race between {a} and {b}, they never run at the same time. The numbers differ because of rounding.",
]
LAYOUTS = [("conf", "{k} = {v}"), ("yaml", "{k}: {v}"), ("ini", "{k}={v}"), ("json", '  "{k}": {v},')]
QUESTIONS = ["What was the value of {k} again?", "Which number did we see for {k}?", "Quel est le nombre derrière {k} ?", "Welche Zahl stand bei {k}?"]


class Words:
    """Names that no recording has, from syllables."""
    ONSET = "b br c ch d dr f g gl h j k kr l m n p pl qu r s st t tr v w z".split()
    VOWEL = "a e i o u ai ou y".split()
    CODA = ["", "n", "r", "x", "l", "m", "sk", "th"]

    def __init__(self, rng):
        self.rng, self.used = rng, set()

    def word(self, syllables=3):
        while True:
            w = "".join(self.rng.choice(self.ONSET) + self.rng.choice(self.VOWEL) + (self.rng.choice(self.CODA) if k == syllables - 1 else "") for k in range(syllables))
            if w not in self.used and len(w) > 5:
                self.used.add(w)
                return w

    def name(self):
        return self.word().capitalize()

    def key(self, style):
        a, b = self.word(2 + self.rng.randrange(2)), self.rng.choice(["limit", "delay", "size", "rate", "port", "level", "depth", "count", "window", "offset"])
        return {"conf": a + "_" + b, "yaml": a + b.capitalize(), "ini": (a + "_" + b).upper(), "json": a + "-" + b}[style]


def shell_call(messages, command, call_id):
    """Returns a call that runs a command with the tool that this session itself runs commands with."""
    names = {c["function"]["name"] for m in messages for c in m.get("tool_calls") or []}
    for name, key in (("Bash", "command"), ("bash", "command"), ("exec_command", "cmd"), ("execute_bash", "command"), ("shell", "command")):
        if name in names:
            return call(name, {key: command}, call_id)
    return call("shell", {"command": command}, call_id)


def call(name, arguments, call_id):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def exchange(said, c, result):
    return [{"role": "assistant", "content": said, "tool_calls": [c]}, {"role": "tool", "tool_call_id": c["id"], "content": result, "failed": False}]


class Planted:
    """A session with planted facts: `statements`, `conclusions` (texts), `lines` ((key, value, path)), and which line is asked for."""

    def __init__(self, messages, rng, files=0, lines=30):
        # By default about a twelfth of the session, so that a choice is needed: at 10 % all of them would fill most of the room.
        files = files or min(12, max(4, sum(len(m["content"] or "") for m in messages) // 12 // 750))
        self.words, self.rng = Words(rng), rng
        self.statements, self.conclusions, self.lines, self.paths = [], [], [], []
        self.inserts = {}
        self.source, self.made = messages, 0
        self.plant_files(files, lines)
        self.plant_conclusions()
        self.plant_statements()
        self.messages = []
        for i, m in enumerate(messages):
            for block in self.inserts.get(i, []):
                self.messages += block
            self.messages.append(m)
        self.asked = rng.randrange(len(self.lines))

    def call_id(self):
        self.made += 1
        return "call_p%d" % self.made

    def places(self, boundary):
        """Returns the legal places in the first two thirds: at a turn's end, or between a result or request and the agent's next message."""
        ms = self.source
        after = [i for i in range(2, max(3, len(ms) * 2 // 3)) if ms[i - 1]["role"] in (("assistant",) if boundary else ("user", "tool")) and not ms[i - 1].get("tool_calls")
                 and ms[i]["role"] == ("user" if boundary else "assistant")]
        return [i for i in after if any(m["role"] == "user" for m in ms[:i])]

    def put(self, i, block):
        self.inserts.setdefault(i, []).append(block)

    def plant_files(self, files, lines):
        values = self.rng.sample(range(10_000, 99_999), files * lines)
        places = self.places(False)
        for f in range(files):
            style, form = LAYOUTS[f % len(LAYOUTS)]
            path = "%s/%s.%s" % (self.words.word(2), self.words.word(2), style)
            rows = [(self.words.key(style), values.pop(), path) for _ in range(lines)]
            self.lines += rows
            self.paths.append(path)
            text = "\n".join(form.format(k=k, v=v) for k, v, _ in rows)
            self.put(self.rng.choice(places), exchange("", shell_call(self.source, "cat " + path, self.call_id()), text))

    def plant_conclusions(self):
        places = self.places(False)
        for form in CONCLUSIONS:
            text = form.format(a=self.words.name(), b=self.words.name())
            self.conclusions.append(text)
            self.put(self.rng.choice(places), exchange(text, shell_call(self.source, "git status --short", self.call_id()), " M " + self.words.word() + ".txt"))

    def plant_statements(self):
        """Half of them interrupt the agent's work, half stand at a turn's end, where the agent answers with a word."""
        work = [i for i in self.places(False) if self.source[i - 1]["role"] == "tool"]
        ends = self.places(True)
        for k, (_, form) in enumerate(STATEMENTS):
            text = form.format(a=self.words.name(), b=self.words.name())
            self.statements.append(text)
            m = {"role": "user", "content": text, "by": "person", "said": text}
            if ends and (k % 2 or not work):
                self.put(self.rng.choice(ends), [m, {"role": "assistant", "content": self.rng.choice(THANKS)}])
            else:
                self.put(self.rng.choice(work or self.places(False)), [m])

    def ending(self, how):
        """Returns the messages with one of three ends: "asked" by the person's last message, "searched" by the newest call, or "plain"."""
        key, end = self.lines[self.asked][0], []
        if how == "asked":
            end = [{"role": "assistant", "content": "This step is done."}]
            question = self.rng.choice(QUESTIONS).format(k=key)
            end.append({"role": "user", "content": question, "by": "person", "said": question})
        elif how == "searched":
            end = exchange("", shell_call(self.source, "grep -rn %s src" % key, self.call_id()), "(no output)")
        return self.messages + end
