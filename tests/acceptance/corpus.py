"""The sides of corpus.sh that are not forge's: other recordings as OpenAI messages, and independent judges.

  corpus.py run SWEEP FOLDER   compacts every recording with the program SWEEP (examples/corpus.rs) and judges each result, as many
                               at a time as there are cores; what came of a recording is kept in FOLDER, so that a run that was
                               broken off goes on where it was; exit 1 where anything was found

FORGE_CORPUS and FORGE_EVAL name the folders. The judges are the evaluator's gate and mistral-common's validator.
"""
import collections, json, multiprocessing, os, re, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
CORPUS, EVAL = os.environ["FORGE_CORPUS"], os.environ["FORGE_EVAL"]
sys.path.insert(0, EVAL)
# Formats that forge reads itself.
OURS = {"claude-code-jsonl", "tau-bench-json", "openhands-llm-log-json"}


def manifest():
    with open(os.path.join(CORPUS, "MANIFEST.json"), encoding="utf8") as f:
        return [e for e in json.load(f) if os.path.exists(os.path.join(CORPUS, e["file"]))]


def recordings():
    """(name, arguments for SWEEP, text for a file of its own or None, size); and how many files of which format nobody reads."""
    import readers
    found, unread = [], collections.Counter()
    for e in manifest():
        path = os.path.join(CORPUS, e["file"])
        sessions = []
        if e["format"] in OURS:
            found.append((e["file"], [path], None, os.path.getsize(path)))
            continue
        if e["format"] == "swe-agent-traj":
            # Their messages are OpenAI's, under a key of their own.
            with open(path, encoding="utf8") as f:
                sessions = [{"id": e["file"], "messages": json.load(f)["history"]}]
        elif e["format"] in readers.LONG or e["format"] in readers.SHORT:
            for cid, b in {**readers.LONG, **readers.SHORT}[e["format"]](path):
                sessions.append({"id": "%s:%s" % (e["file"], cid), "messages": b.messages()[0]})
        elif e["format"] in readers.DIALOGUE:
            sessions = [{"id": "%s:%s" % (e["file"], cid), "messages": ms} for cid, ms, _ in readers.dialogue(path)]
        else:
            unread[e["format"]] += 1
        for s in sessions:
            if s["messages"]:
                line = json.dumps(s) + "\n"
                found.append((s["id"], ["--openai-lines"], line, len(line)))
    return sorted(found, key=lambda r: -r[3]), unread


def kinds(faults):
    return collections.Counter(re.sub(r"\d+", "N", str(f)) for f in faults)


def judges():
    """The gate and the validator, each a function from messages to faults."""
    import metrics
    from mistral_common.exceptions import MistralCommonException
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import MistralRequestValidatorV13, ValidationMode
    validator = MistralRequestValidatorV13(mode=ValidationMode.serving)

    def plain(m):
        # What the validator's types do not know says nothing of the order.
        m = {k: v for k, v in m.items() if k in ("role", "content", "tool_calls", "tool_call_id")}
        if m["role"] == "developer":
            m["role"] = "system"
        if isinstance(m.get("content"), list):
            m["content"] = metrics.content_text(m) or "(media)"
        return m

    def mistral(messages):
        # A cut may end with what the assistant says, and only a user or a tool may have the last word there.
        if messages and messages[-1]["role"] in ("assistant", "system", "developer"):
            messages = messages + [{"role": "user", "content": "go on"}]
        try:
            validator.validate_messages(ChatCompletionRequest.from_openai([plain(m) for m in messages]).messages)
        except (MistralCommonException, ValueError, TypeError) as e:
            return [type(e).__name__ + " " + str(e)[:200]]
        return []

    return metrics.gate, mistral


def judged(lines):
    """What the judges find in results that the input did not have."""
    gate, mistral = JUDGES
    n, bad, faults, refused = 0, collections.Counter(), [], collections.Counter()
    before, source, known = None, [], {}
    for line in lines:
        d = json.loads(line)
        ms = d["messages"]
        if "strategy" not in d:
            source, known = [ms[0], ms[-1]] if ms else [], {}
            before = (kinds(gate(ms, source)), mistral(ms))
            refused.update(kinds(before[1]))
            continue
        n += 1
        # Several ways often lead to the same messages.
        key = hash(json.dumps(ms, sort_keys=True))
        if key not in known:
            found = ["gate: " + f for f in (kinds(gate(ms, source)) - before[0]).elements()]
            if not before[1]:
                found += ["mistral: " + re.sub(r"\d+", "N", f) for f in mistral(ms)]
            known[key] = found
        bad.update(known[key])
        faults += ["%s %s/10 %s to %s%%: %s" % (d["id"], d["cut"], d["strategy"], d["target"], f) for f in known[key]]
    return n, bad, faults, refused


def one(job):
    """Compacts and judges one recording; what came of it is kept whole or not at all."""
    sweep, folder, nth, (name, arguments, text, size) = job
    kept = os.path.join(folder, "%s.json" % re.sub(r"[^\w.-]+", "_", name)[-180:])
    if os.path.exists(kept):
        with open(kept, encoding="utf8") as f:
            return name, size, json.load(f), True
    with tempfile.TemporaryDirectory() as work:
        if text is not None:
            path = os.path.join(work, "session.jsonl")
            with open(path, "w", encoding="utf8") as f:
                f.write(text)
            arguments = arguments + [path]
        said = os.path.join(work, "said")
        with open(said, "w+", encoding="utf8") as err:
            with subprocess.Popen([sweep] + arguments, stdout=subprocess.PIPE, stderr=err, text=True, encoding="utf8") as process:
                n, bad, faults, refused = judged(process.stdout)
            err.seek(0)
            told = err.read().splitlines()
    if process.returncode != 0:
        ours = [line for line in told if line.startswith("FAULT")]
        faults += ours or ["%s: exit %d: %s" % (name, process.returncode, " ".join(told[-3:]))]
        bad["forge's own checks"] += max(1, len(ours))
    done = {"judged": n, "bad": bad, "faults": faults[:50], "refused": refused, "tally": told[-1] if told else ""}
    part = kept + ".part%d" % os.getpid()
    with open(part, "w", encoding="utf8") as f:
        json.dump(done, f)
    os.replace(part, kept)
    return name, size, done, False


def run(sweep, folder):
    global JUDGES
    JUDGES = judges()
    os.makedirs(folder, exist_ok=True)
    found, unread = recordings()
    everything = sum(size for _, _, _, size in found)
    started, size_done, size_new = time.time(), 0, 0
    n, bad, refused, sums = 0, collections.Counter(), collections.Counter(), collections.Counter()
    with multiprocessing.get_context("fork").Pool(int(os.environ.get("FORGE_JOBS") or os.cpu_count())) as pool:
        jobs = [(sweep, folder, nth, recording) for nth, recording in enumerate(found)]
        for at, (name, size, done, was_kept) in enumerate(pool.imap_unordered(one, jobs), 1):
            size_done += size
            size_new += 0 if was_kept else size
            n += done["judged"]
            bad.update(done["bad"])
            refused.update(done["refused"])
            for number, what in re.findall(r"(\d+) ([a-z ]+)", done["tally"]):
                sums[what] += int(number)
            took = time.time() - started
            left = took / size_new * (everything - size_done) if size_new else 0
            print("%4d of %d  %3d %%  %5.0f s, about %.0f s left  %s%s" % (
                at, len(found), 100 * size_done / everything, took, left, name, " (kept)" if was_kept else ""), flush=True)
            for fault in done["faults"]:
                print("FAULT", fault, flush=True)
    print(", ".join("%d %s" % (number, what) for what, number in sums.items()))
    print("judged %d results; by themselves mistral's validator refuses %d cuts, which were judged by the gate alone" % (n, sum(refused.values())))
    print("why: %s" % dict(refused.most_common(8)))
    print("not read by forge or the evaluator: %s" % (dict(unread) or "none"))
    print("faults: %s" % (dict(bad) or "none"))
    sys.exit(bool(bad) or n == 0)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "run":
        sys.exit(__doc__)
    run(sys.argv[2], sys.argv[3])
