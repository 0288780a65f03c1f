"""Long talk with annotated evidence: for each question of somebody else's, the turns that answer it. No message asks, so a
compaction has to keep what may be asked. The file is LoCoMo's `locomo10.json` (github.com/snap-research/locomo, CC BY-NC 4.0);
it is no part of the project."""
import json, random, re, tempfile

import dialogue, measures, policies


def conversations(path):
    """Yields (name, messages, questions); a question is (places of its evidence, answer)."""
    with open(path, encoding="utf8") as f:
        told = json.load(f)
    for nth, one in enumerate(told):
        talk, messages, places = one["conversation"], [{"role": "user", "content": "Let us go on with our conversation.", "by": "person", "said": ""}], {}
        for session in sorted((k for k in talk if re.fullmatch(r"session_\d+", k)), key=lambda k: int(k[8:])):
            date = talk.get(session + "_date_time", "")
            for k, turn in enumerate(talk[session] or []):
                text = turn.get("text") or ""
                text += " (shares a picture: %s)" % turn["blip_caption"] if turn.get("blip_caption") else ""
                text = ("[%s] " % date if k == 0 else "") + "%s: %s" % (turn["speaker"], text)
                role = "user" if turn["speaker"] == talk["speaker_a"] else "assistant"
                places[turn.get("dia_id")] = len(messages)
                messages.append({"role": role, "content": text, "by": "person" if role == "user" else "", "said": text if role == "user" else ""})
        questions = []
        for q in one["qa"]:
            evidence = {places[d] for e in q.get("evidence") or [] for d in re.findall(r"D\d+:\d+", str(e)) if d in places}
            # Questions of the fifth kind have no answer in the talk.
            if evidence and q.get("category") != 5:
                questions.append((sorted(evidence), str(q.get("answer") or "")))
        yield one.get("sample_id") or str(nth), messages, questions


def judge(path, program, names, budget, seed):
    """Returns {policy: [(evidence, answers) of each talk]}: the share of the turns that answer, and of the answers that stand there word for word."""
    out = {}
    for name, messages, questions in conversations(path):
        facts = dialogue.Facts(messages, random.Random("%s %s" % (seed, name)))
        with tempfile.TemporaryDirectory(prefix="quality") as folder:
            task = policies.Task(messages, False, policies.Forge(program, folder), budget)
            views = {p: policies.run(p, task)[0] for p in names}
            views["random"], _ = policies.filled("random", lambda t: dialogue.random_turns(t, random.Random(seed)), task)
            views["idf_density"], _ = policies.filled("idf_density", lambda t: dialogue.idf_density(t, facts), task)
        for policy, view in views.items():
            text = dialogue.full_text(view or [])
            kept = {i: facts.kept(facts.turns[i], text) for evidence, _ in questions for i in evidence}
            verbatim = [a for e, a in questions if len(a) >= 4 and any(a.lower() in facts.turns[i].lower() for i in e)]
            out.setdefault(policy, []).append((measures.mean([measures.mean([kept[i] for i in e]) for e, _ in questions]),
                                               measures.mean([a.lower() in text.lower() for a in verbatim])))
    return out
