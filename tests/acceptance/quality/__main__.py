"""Judges what a compaction left of recorded sessions; README.md says what each figure means.

  python3 tests/acceptance/quality [run]                 the table
  python3 tests/acceptance/quality selftest              the controls that must hold before a figure is believed
  python3 tests/acceptance/quality show SESSION          prints a view, to be read by eye
  python3 tests/acceptance/quality points                at the recordings' own compactions, beside the agent's summary
  python3 tests/acceptance/quality rounds                after many compactions, one of what the other left, beside one of all
"""
import argparse, collections, json, multiprocessing, os, random, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import annotated, dialogue, measures as M, planting, policies, recordings

PLANTED = [("statements", M.statements), ("conclusions", M.conclusions)]
HANDOVER = [("short_messages", M.short_messages), ("latest_words", M.latest_words), ("earlier_words", M.earlier_words), ("antecedent", M.antecedent),
            ("last_texts", M.last_texts), ("tasks", M.tasks)]
RECORD = [("bare_lines", M.bare_lines), ("person_said", M.person_said), ("fixed_errors", M.fixed_errors)]
FUTURE = [("information", M.information), ("later_facts", M.later_facts), ("needed_names", M.needed_names), ("edit_sources", M.edit_sources)]
LOWER = {"bare_lines", "fixed_errors", "invented", "other_lines", "room_drops"}
ORDER = ["statements", "short_messages", "asked_line", "searched_line", "other_lines", "findable", "conclusions", "latest_words", "earlier_words", "antecedent", "last_texts",
         "tasks", "person_said", "fixed_errors", "invented", "bare_lines", "needed_names", "later_facts", "information", "edit_sources", "used", "used_half", "fits", "room_drops",
         "dialogue_evidence", "dialogue_asked"]


def judge_real(view, task, future, used):
    """Returns the measures of a view of the session as it was."""
    v = M.View(view, task)
    out = {name: f(v, task) for name, f in HANDOVER + RECORD}
    out.update({name: f(v, future) for name, f in FUTURE})
    names = M.invented(v, task)
    out["invented"] = None if names is None else len(names)
    out["used"] = used / task.limit
    out["fits"] = float(used <= task.limit)
    return out


def judge_session(job):
    """Returns [(policy, budget, {measure: value})] for one session, all its cuts."""
    session, o = job
    started, rows = time.time(), []
    with tempfile.TemporaryDirectory(prefix="quality") as folder:
        forge = policies.Forge(o.forge, folder)
        for share, cut in session.cuts(o.cuts):
            before = session.messages[:cut]
            rng = random.Random("%s %s %s" % (o.seed, session.name, share))
            planted, future = planting.Planted(before, rng, o.files), M.Future(session, cut)
            base = {}
            for kind, messages in [("real", before)] + [(e, planted.ending(e)) for e in ("plain", "asked", "searched")]:
                for budget in o.budgets:
                    task = policies.Task(messages, session.claude, forge, budget, base.get(kind))
                    base[kind] = task.base
                    for name in o.policies:
                        view, used = policies.run(name, task)
                        rows.append((name, budget, failed(kind) if view is None else judge_view(kind, view, task, used, planted, future)))
            if o.room and share == o.cuts[len(o.cuts) // 2]:
                rows += judge_room(session, forge, o, planted, future, before, base)
    print("  %-46s %5.1f s" % (session.dataset + "/" + session.name, time.time() - started), file=sys.stderr, flush=True)
    return session.name, rows


def failed(kind):
    """Returns the zeros of a compaction that gave no result."""
    names = {"real": [n for n, _ in HANDOVER + FUTURE] + ["fits"], "plain": [n for n, _ in PLANTED] + ["findable"], "asked": ["asked_line"], "searched": ["searched_line"]}
    return dict.fromkeys(names[kind], 0.0)


def judge_view(kind, view, task, used, planted, future):
    if kind == "real":
        return judge_real(view, task, future, used)
    v = M.View(view, task)
    if kind == "plain":
        return {**{name: f(v, planted) for name, f in PLANTED}, "other_lines": M.other_lines(v, planted), "findable": M.findable(v, planted)}
    return {kind + "_line": M.asked_line(v, planted)}


def judge_room(session, forge, o, planted, future, before, base):
    """Returns how often more room keeps less (steps from 10 to 90 %, planted facts and information, each by more than 0.02), and the
    share of the target used where half may stay."""
    rows = []
    for name in o.policies:
        if name in ("none", "everything"):
            continue
        steps = []
        for budget in (10, 20, 30, 50, 70, 90):
            task = policies.Task(planted.ending("plain"), session.claude, forge, budget, base["plain"])
            v = M.View(policies.run(name, task)[0] or [], task)
            facts = (M.statements(v, planted) + M.conclusions(v, planted) + M.mean([M.line_stands(v, k, x) for k, x, _ in planted.lines])) / 3
            real = policies.Task(before, session.claude, forge, budget, base["real"])
            view, used = policies.run(name, real)
            half = used / real.limit if budget == 50 and view else half if budget > 50 else None
            steps.append((facts, M.information(M.View(view or [], real), future)))
        drops = [b[k] < a[k] - 0.02 for a, b in zip(steps, steps[1:]) for k in (0, 1) if a[k] is not None]
        rows.append((name, o.budgets[0], {"room_drops": M.mean(drops), "used_half": half}))
    return rows


def judge_chat(job):
    session, o = job
    with tempfile.TemporaryDirectory(prefix="quality") as folder:
        got = dialogue.judge(session, policies.Forge(o.forge, folder), [p for p in o.policies if p != "everything"], o.seed)
    return session.name, [(name, 20, values) for name, values in got.items()]


# --- statistics

def collect(results):
    """Returns {(measure, budget, policy): {session: mean over its cuts}}."""
    raw = collections.defaultdict(lambda: collections.defaultdict(list))
    for session, rows in results:
        for policy, budget, values in rows:
            for name, value in values.items():
                if value is not None:
                    raw[name, budget, policy][session].append(value)
    return {k: {s: M.mean(v) for s, v in by.items()} for k, by in raw.items()}


def interval(values, seed=1):
    """Returns the 95 % bootstrap interval of a mean over sessions."""
    if len(values) < 2:
        return None
    rng = random.Random(seed)
    means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(2000))
    return means[50], means[1949]


def compare(table, name, budget, policy, other):
    """Returns (mean, low, high) of the paired difference between two policies, over the sessions that both have."""
    a, b = table.get((name, budget, policy), {}), table.get((name, budget, other), {})
    diff = [a[s] - b[s] for s in a if s in b]
    return (M.mean(diff), *(interval(diff) or (None, None))) if diff else None


def print_table(table, o):
    for budget in sorted({b for _, b, _ in table}):
        names = [n for n in ORDER if any((n, budget, p) in table for p in o.policies)]
        shown = [p for p in o.policies + ["random", "idf_density"] if any((n, budget, p) in table for n in names)]
        rivals = [r for r in ("keep_last", "lines") if r in shown]
        first = shown[0]
        print("\n%d %% of what may leave%s" % (budget, "" if first in rivals else "; differences of %s with 95 %% intervals" % first))
        print("%-18s" % "" + "".join("%13s" % p[-12:] for p in shown) + "   95 %% of %s" % first + "".join("%26s" % ("to " + r) for r in rivals) + "  sessions")
        for n in names:
            cells = [table.get((n, budget, p)) for p in shown]
            line = "%-18s" % n + "".join("%13s" % (".." if not c else "%.3f" % M.mean(c.values())) for c in cells)
            around = interval(list(cells[0].values())) if cells[0] else None
            line += "  %14s" % ("[%.2f, %.2f]" % around if around else "")
            for r in rivals:
                d = compare(table, n, budget, first, r) if r != first else None
                line += "%26s" % ("%+.3f [%+.3f, %+.3f]" % d if d and d[1] is not None else "")
            print(line + "%10d" % max(len(c or {}) for c in cells))
    print("\nlower is better: " + ", ".join(n for n in ORDER if n in LOWER))


def check_requirements(table, requirements, policy, budgets):
    """Returns the requirements that are not met. A form: `name>=x`, `name@20<=x`, `name>=POLICY+x` (`lines`, `keep_last` of the same run)."""
    missed = []
    for text in requirements:
        op = ">=" if ">=" in text else "<="
        name, bound = text.split(op)
        name, _, at = name.partition("@")
        for budget in [int(at)] if at else sorted({b for n, b, p in table if n == name and p == policy}):
            value = M.mean(table.get((name, budget, policy), {}).values())
            limit = 0.0
            for part in bound.replace("-", "+-").split("+"):
                rival = table.get((name, budget, part))
                limit += M.mean(rival.values()) if rival else float(part or 0)
            if value is None or (value < limit if op == ">=" else value > limit):
                missed.append("%s@%d is %s, required %s %.3f" % (name, budget, "missing" if value is None else "%.3f" % value, op, limit))
    return missed


# --- commands

def in_parallel(function, jobs, o):
    if o.jobs == 1:
        return [function(j) for j in jobs]
    with multiprocessing.Pool(o.jobs) as pool:
        return pool.map(function, jobs, chunksize=1)


def chosen(o):
    found = recordings.load(o.corpus, set(o.datasets.split(",")) if o.datasets else None)
    found = [s for s in found if not o.only or o.only in s.name]
    return found[o.skip:o.skip + o.sessions]


def chats(o):
    found = recordings.load(o.corpus, recordings.CHATS, 3000)
    # English, Chinese and about code in turn.
    kinds = [[s for s in found if s.name.startswith(k)] for k in ("memory_bank_en", "memory_bank_cn", "chat-history")]
    return [s for k in range(len(found)) for group in kinds for s in group[k:k + 1]][:o.chats]


def run(o):
    started = time.time()
    print("seed %s, sessions %d, cuts %s, forge %s" % (o.seed, o.sessions, o.cuts, o.forge))
    results = in_parallel(judge_session, [(s, o) for s in chosen(o)], o)
    results += in_parallel(judge_chat, [(s, o) for s in chats(o)], o) if o.chats else []
    table = collect(results)
    print_table(table, o)
    print("%.0f s" % (time.time() - started))
    if o.json:
        with open(o.json, "w", encoding="utf8") as f:
            json.dump({"seed": o.seed, "rows": [{"measure": n, "budget": b, "policy": p, "mean": M.mean(v.values()), "interval": interval(list(v.values())), "sessions": v,
                                                "to_keep_last": compare(table, n, b, p, "keep_last"), "to_lines": compare(table, n, b, p, "lines")}
                                               for (n, b, p), v in sorted(table.items())]}, f, indent=1)
    missed = check_requirements(table, o.require, o.policies[0], o.budgets)
    for m in missed:
        print("NOT MET: " + m)
    return 1 if missed else 0


def selftest(o):
    """Checks the judge itself with policies whose scores are known."""
    o.policies, o.budgets, o.cuts, o.room, faults = ["keep_last", "everything", "none"], [10], [70], False, []
    sessions = chosen(o)
    table = collect(in_parallel(judge_session, [(s, o) for s in sessions], o))
    at = lambda n, p: M.mean(table.get((n, 10, p), {}).values())
    for n in ("statements", "conclusions", "asked_line", "searched_line", "other_lines", "findable", "short_messages", "latest_words", "earlier_words", "antecedent", "last_texts",
              "tasks", "information", "later_facts", "edit_sources"):
        value = at(n, "everything")
        if value is not None and value < 0.995:
            faults.append("everything kept scores %.3f on %s, not 1" % (value, n))
    for n in ("statements", "conclusions", "asked_line", "other_lines"):
        if at(n, "none") > 0.001:
            faults.append("nothing kept scores %.3f on %s" % (at(n, "none"), n))
        if at(n, "keep_last") > 0.15:
            faults.append("the newest messages alone score %.3f on %s" % (at(n, "keep_last"), n))
    # An engine that ignores the question keeps the same whichever line is asked for.
    with tempfile.TemporaryDirectory(prefix="quality") as folder:
        forge = policies.Forge(o.forge, folder)
        for s in sessions[:4]:
            (_, cut), = s.cuts([70])
            planted = planting.Planted(s.messages[:cut], random.Random("%s %s" % (o.seed, s.name)))
            got = []
            for _ in range(5):
                planted.asked = random.Random(len(got)).randrange(len(planted.lines))
                task = policies.Task(planted.ending("asked"), s.claude, forge, 10)
                v = M.View(policies.keep_last(task), task)
                got.append(M.mean([M.line_stands(v, k, x) for k, x, _ in planted.lines]))
            if max(got) - min(got) > 0.05:
                faults.append("another question changes what keep_last keeps of %s: %s" % (s.name, got))
            # With room for all, nothing may get lost between this judge, the file and forge.
            view, _ = forge.compact(task.messages, s.claude, 100_000_000)
            v = M.View(view or [], task)
            whole = [M.statements(v, planted), M.conclusions(v, planted), M.mean([M.line_stands(v, k, x) for k, x, _ in planted.lines])]
            if min(whole) < 1:
                faults.append("forge with room for all loses planted facts of %s: %s" % (s.name, whole))
            # The rough count must agree with forge's own on views of its making.
            view, report = forge.compact(task.messages, s.claude, task.limit)
            rough = sum(map(task.count, view or []))
            if not 0.8 < rough / max(1, report.get("tokens_after", 1)) < 1.25:
                faults.append("the rough count says %d tokens of %s, forge %s" % (rough, s.name, report.get("tokens_after")))
    for fault in faults:
        print("FAULT: " + fault)
    print("%d sessions, %d faults" % (len(sessions), len(faults)))
    return 1 if faults else 0


def show(o):
    """Prints one view and its scores."""
    session = next(s for s in recordings.load(o.corpus) + recordings.load(o.corpus, recordings.CHATS, 3000) if o.session in s.name)
    (share, cut), = session.cuts([o.cut])
    before = session.messages[:cut]
    if o.plant:
        planted = planting.Planted(before, random.Random("%s %s %s" % (o.seed, session.name, share)), o.files)
        before = planted.ending(o.plant)
    with tempfile.TemporaryDirectory(prefix="quality") as folder:
        task = policies.Task(before, session.claude, policies.Forge(o.forge, folder), o.budget)
        view, used = policies.run(o.policy, task)
    if view is None:
        print(used)
        return 1
    for m in view:
        print("━━━ %s %s" % (m["role"], m.get("tool_call_id", "")))
        print(M.message_text(m))
    print("━━━ %d of %d messages, %d of %d tokens" % (len(view), len(before), used, task.limit))
    if o.plant:
        v = M.View(view, task)
        print("asked for: %s = %s of %s: %s" % (*planted.lines[planted.asked], bool(M.asked_line(v, planted))))
        for name, f in PLANTED:
            print("%-16s %.2f" % (name, f(v, planted)))
    else:
        for name, value in judge_real(view, task, M.Future(session, cut), used).items():
            print("%-16s %s" % (name, "-" if value is None else "%.2f" % value))
    return 0


def points(o):
    """Compares, where a recorded agent compacted its own context, its summary with views of the same size."""
    rows = collections.defaultdict(list)
    for s in recordings.load(o.corpus, smallest=15_000):
        for k, (place, summary) in enumerate(s.summaries):
            start = s.summaries[k - 1][0] if k else 0
            window = s.whole[start:place]
            if k:
                window = [{"role": "user", "content": s.summaries[k - 1][1], "by": "harness", "said": ""}] + window
            following = [m for m in s.whole[place:place + 60]]
            if len(window) < 12 or not any(m["role"] == "assistant" for m in following):
                continue
            piece = recordings.Session.__new__(recordings.Session)
            piece.messages, piece.claude = window + following, s.claude
            future = M.Future(piece, len(window))
            with tempfile.TemporaryDirectory(prefix="quality") as folder:
                task = policies.Task(window, s.claude, policies.Forge(o.forge, folder), 10)
                told = task.head() + [{"role": "user", "content": summary}]
                task.limit_to(task.forge.count(told) - task.fixed)
                views = {"summary": (told, task.limit)}
                views.update((p, policies.run(p, task)) for p in o.policies if p != "none")
            for p, (view, used) in views.items():
                if view is not None:
                    rows[p].append((s.name, [(p, 0, judge_real(view, task, future, used))]))
            print("  %s at %d: %d tokens to %d" % (s.name, place, task.total, task.limit), file=sys.stderr, flush=True)
    table = collect([r for found in rows.values() for r in found])
    shown = ["summary"] + [p for p in o.policies if p != "none"]
    print("%d compactions that an agent made itself; each policy at the size of its summary" % len(rows["summary"]))
    print("%-18s" % "" + "".join("%13s" % p[-12:] for p in shown) + "%34s" % ("%s to summary" % shown[1]))
    for n in ORDER:
        cells = [table.get((n, 0, p)) for p in shown]
        if any(cells):
            d = compare(table, n, 0, shown[1], "summary")
            print("%-18s" % n + "".join("%13s" % (".." if not c else "%.3f" % M.mean(c.values())) for c in cells) + "%34s" % ("%+.3f [%+.3f, %+.3f]" % d if d and d[1] is not None else ""))
    return 0


# The window of an agent that compacts again and again, in rooms: by default it compacts to a fifth.
ROOMS = 5


def rounds_of(job):
    """Returns [(policy, budget, {measure: value})] for one session: compacted again and again while it grew, and at once, to the same size."""
    session, o = job
    rows, (_, cut) = [], *session.cuts([o.cuts[-1]])
    planted, future = planting.Planted(session.messages[:cut], random.Random("%s %s" % (o.seed, session.name)), o.files or 3), M.Future(session, cut)
    messages = planted.ending("plain")
    with tempfile.TemporaryDirectory(prefix="quality") as folder:
        forge, base = policies.Forge(o.forge, folder), None
        for budget in o.budgets:
            task = policies.Task(messages, session.claude, forge, budget, base)
            base = task.base
            grown, n = forge.live(messages, session.claude, ROOMS * task.limit, task.limit)
            if n < 2:
                continue
            for name, view in [("rounds", grown), ("at_once", forge.compact(messages, session.claude, task.limit)[0])]:
                v = M.View(view or [], task)
                values = {k: f(v, planted) for k, f in PLANTED + [("findable", M.findable)]}
                values.update({k: f(v, task) for k, f in HANDOVER})
                values.update({k: f(v, future) for k, f in FUTURE})
                rows.append((name, budget, {**values, "compactions": n + 1 if name == "rounds" else 1}))
    return session.name, rows


def rounds(o):
    """Prints what is left after many compactions, one of what the other left, beside one compaction of all."""
    table = collect(in_parallel(rounds_of, [(s, o) for s in chosen(o)], o))
    for budget in sorted({b for _, b, _ in table}):
        n = table["compactions", budget, "rounds"]
        print("%d %%: %d sessions, %.1f compactions each (%d to %d)" % (budget, len(n), M.mean(n.values()), min(n.values()), max(n.values())))
        for name in [name for name in ORDER if (name, budget, "rounds") in table]:
            d = compare(table, name, budget, "rounds", "at_once")
            print("%-18s" % name + "".join("%10.3f" % M.mean(table[name, budget, p].values()) for p in ("rounds", "at_once")) + ("%30s" % ("%+.3f [%+.3f, %+.3f]" % d) if d[1] is not None else ""))
    return 0


def talk(o):
    """Prints how much of what is asked about long talk is left, of a file of annotated conversations."""
    for budget in o.budgets:
        print("%d %%: evidence, answers" % budget)
        for policy, rows in annotated.judge(o.session, o.forge, [p for p in o.policies if p != "none"], budget, o.seed).items():
            low, high = interval([e for e, _ in rows])
            print("%-14s %.3f [%.2f, %.2f]  %.3f" % (policy, M.mean([e for e, _ in rows]), low, high, M.mean([a for _, a in rows])))
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", nargs="?", default="run", choices=["run", "selftest", "show", "points", "rounds", "talk"])
    p.add_argument("session", nargs="?", default="", help="show: a part of a session's name; talk: a file of annotated conversations")
    p.add_argument("--corpus", default=os.environ.get("FORGE_CORPUS"), help="folder with MANIFEST.json (FORGE_CORPUS)")
    p.add_argument("--forge", default=os.environ.get("FORGE_BINARY", "target/release/forge"), help="the program (FORGE_BINARY, target/release/forge)")
    p.add_argument("--sessions", type=int, default=12)
    p.add_argument("--skip", type=int, default=0, help="leave out the first N sessions: to judge on others than those that were tuned on")
    p.add_argument("--chats", type=int, default=12, help="chats for the dialogue measures; 0 for none")
    p.add_argument("--datasets", default="", help="only these folders of the corpus, by comma")
    p.add_argument("--only", default="", help="only sessions whose name has this")
    p.add_argument("--policies", default="forge,keep_last,lines,brief", help="forge, forge:STRATEGY, keep_last, lines, brief, none, everything; the first is judged")
    p.add_argument("--budgets", default="10,20", help="percent of what may leave")
    p.add_argument("--cuts", default="50,70,85", help="percent of the session")
    p.add_argument("--no-room", dest="room", action="store_false", help="leave out whether more room keeps less")
    p.add_argument("--files", type=int, default=0, help="planted files of thirty lines each; 0: a twelfth of the session, four to twelve")
    p.add_argument("--seed", default=None, help="of the drawn words; without it a new one, which is printed")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    p.add_argument("--json", help="write all figures to this file")
    p.add_argument("--require", action="append", default=[], help="'name>=x', 'name@20<=x', 'name>=lines+x'; exit 1 if not met")
    p.add_argument("--cut", type=int, default=70, help="show: percent of the session")
    p.add_argument("--budget", type=float, default=10, help="show: percent of what may leave")
    p.add_argument("--policy", default="forge", help="show: which policy")
    p.add_argument("--plant", choices=["plain", "asked", "searched"], help="show: with planted facts and this end")
    o = p.parse_args()
    if not o.corpus and o.command != "talk":
        p.error("FORGE_CORPUS must name the folder of the recordings")
    if o.command == "talk" and not os.path.isfile(o.session):
        p.error("talk needs a file of annotated conversations; annotated.py says where from")
    o.policies, o.budgets, o.cuts = o.policies.split(","), [int(b) for b in o.budgets.split(",")], [int(c) for c in o.cuts.split(",")]
    o.seed = o.seed or str(random.SystemRandom().randrange(10 ** 6))
    return {"run": run, "selftest": selftest, "show": show, "points": points, "rounds": rounds, "talk": talk}[o.command](o)


if __name__ == "__main__":
    sys.exit(main())
