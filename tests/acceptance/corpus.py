"""The sides of corpus.sh that are not forge's: other recordings as OpenAI messages, and independent judges.

  corpus.py files          the recordings that forge reads itself, a path a line
  corpus.py sessions       all others, {"id", "messages"} a line, by the evaluator's readers
  corpus.py judge          reads what examples/corpus.rs writes; exit 1 where a judge finds what the input did not have

FORGE_CORPUS and FORGE_EVAL name the folders. The judges are the evaluator's gate and mistral-common's validator.
"""
import collections, json, os, re, sys

sys.dont_write_bytecode = True
CORPUS, EVAL = os.environ["FORGE_CORPUS"], os.environ["FORGE_EVAL"]
sys.path.insert(0, EVAL)
OURS = {"claude-code-jsonl", "tau-bench-json", "openhands-llm-log-json"}


def manifest():
    with open(os.path.join(CORPUS, "MANIFEST.json"), encoding="utf8") as f:
        return [e for e in json.load(f) if os.path.exists(os.path.join(CORPUS, e["file"]))]


def files():
    for e in manifest():
        if e["format"] in OURS:
            print(os.path.join(CORPUS, e["file"]))


def sessions():
    import readers
    ours = {e["dataset"] for e in manifest() if e["format"] in OURS}
    skipped = collections.Counter()
    for e in manifest():
        # Their messages are OpenAI's, under a key of their own.
        if e["format"] == "swe-agent-traj":
            with open(os.path.join(CORPUS, e["file"]), encoding="utf8") as f:
                print(json.dumps({"id": e["file"], "messages": json.load(f)["history"]}))
    for tier in sorted({e["tier"] for e in manifest()}):
        for group in ("long", "short", "dialogue"):
            found, missing = readers.load(CORPUS, tier, group)
            skipped["missing"] += missing
            for s in found:
                if s["dataset"] not in ours:
                    print(json.dumps({"id": s["id"], "messages": s["messages"]}))
    print(dict(skipped), file=sys.stderr)


def kinds(faults):
    return collections.Counter(re.sub(r"\d+", "N", str(f)) for f in faults)


def judge():
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

    n, unusable, bad, refused = 0, 0, collections.Counter(), collections.Counter()
    before = None
    for line in sys.stdin:
        d = json.loads(line)
        ms = d["messages"]
        if "strategy" not in d:
            source = [ms[0], ms[-1]] if ms else []
            before = (kinds(metrics.gate(ms, source)), mistral(ms))
            unusable += bool(before[1])
            refused.update(kinds(before[1]))
            continue
        n += 1
        for fault, times in (kinds(metrics.gate(ms, source)) - before[0]).items():
            bad["gate: " + fault] += times
            if bad["gate: " + fault] <= 3:
                print("FAULT gate:", d["id"], d["cut"], d["strategy"], d["target"], fault, file=sys.stderr)
        if not before[1]:
            for fault in mistral(ms):
                bad["mistral: " + re.sub(r"\d+", "N", fault)] += 1
                print("FAULT mistral:", d["id"], d["cut"], d["strategy"], d["target"], fault, file=sys.stderr)
    print("judged %d results; %d cuts that mistral's validator refuses by themselves were judged by the gate alone" % (n, unusable))
    print("why: %s" % dict(refused.most_common(8)))
    print("faults: %s" % (dict(bad) or "none"))
    sys.exit(bool(bad) or n == 0)


{"files": files, "sessions": sessions, "judge": judge}[sys.argv[1]]()
