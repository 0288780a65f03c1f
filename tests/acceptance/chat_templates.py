"""The side of chat_templates.sh that is not forge's: chat templates, rendered as vLLM renders them.

  chat_templates.py sessions                          prints the recordings of $FORGE_CORPUS that forge reads itself
  chat_templates.py render PACKAGES PROGRAM PROMPTS   renders every template below PACKAGES over both prompts of each line of PROMPTS;
                                                      PROGRAM says which models get the strictest turns; exit 1 where a template
                                                      takes the prompt before a compaction and raises after it
"""
import collections, concurrent.futures, datetime, json, os, pathlib, subprocess, sys

FORMATS = {"claude-code-jsonl", "tau-bench-json", "openhands-llm-log-json"}
# Larger recordings show templates nothing new and take long to compact.
LARGEST = 300_000


def sessions():
    root = os.environ["FORGE_CORPUS"]
    with open(os.path.join(root, "MANIFEST.json"), encoding="utf8") as f:
        for entry in json.load(f):
            path = os.path.join(root, entry["file"])
            if entry["format"] in FORMATS and os.path.exists(path) and os.path.getsize(path) <= LARGEST:
                print(path)


class Raised(Exception):
    pass


def environment():
    import jinja2.ext
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        """The tag `generation` marks what the assistant says, for training; it prints what is in it."""
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

        def _inside(self, caller):
            return caller()

    def raise_exception(message):
        raise Raised(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    # The settings of transformers, which vLLM uses.
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime(2026, 1, 1).strftime(form)
    return made


def as_vllm(messages, wrapped):
    """The messages as vLLM hands them to a template: contents are texts, or lists of parts where the template wants those."""
    ids, handed = {}, []
    # Templates of Mistral's take ids of nine letters and digits alone.
    legal = lambda old: ids.setdefault(old, "call%05d" % len(ids))
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [] if content is None else [{"type": "text", "text": content}]
        is_text = lambda part: part.get("type") == "text"
        if wrapped:
            content = [part if is_text(part) else {"type": "image"} for part in parts]
        else:
            content = "\n".join(part["text"] if is_text(part) else "<image>" for part in parts)
        new = {"role": message["role"], "content": content}
        if message.get("tool_calls"):
            new["tool_calls"] = [
                {"id": legal(call["id"]), "type": "function",
                 "function": {"name": call["function"]["name"], "arguments": arguments(call["function"]["arguments"])}}
                for call in message["tool_calls"]]
        if "tool_call_id" in message:
            new["tool_call_id"] = legal(message["tool_call_id"])
        handed.append(new)
    return handed


def arguments(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


def tools_of(messages):
    names = sorted({call["function"]["name"] for m in messages for call in m.get("tool_calls") or []})
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "A path."}}, "required": ["path"]}
    return [{"type": "function", "function": {"name": n, "description": "A tool.", "parameters": schema}} for n in names] or None


def accepts(template, messages, tools, wrapped):
    try:
        template.render(messages=as_vllm(messages, wrapped), tools=tools, add_generation_prompt=True, bos_token="<s>",
                        eos_token="</s>")
        return None
    except Exception as error:  # templates reach into Python freely
        return str(error) or repr(error)


def judge(task):
    """What one template makes of all prompts: those that it takes before, and those at which it raises after."""
    name, source, strict, path = task
    try:
        template = environment().from_string(source)
    except Exception:
        return name, None
    form = "strict" if strict else "plain"
    known, counts, raised = {}, collections.Counter(), []

    def verdict(messages, tools, wrapped):
        key = (json.dumps([messages, tools]), wrapped)
        if key not in known:
            known[key] = accepts(template, messages, tools, wrapped)
        return known[key]

    with open(path, encoding="utf8") as f:
        for line in f:
            pair = json.loads(line)
            for kind in (form, "raw"):
                # One is enough to show what would happen.
                if kind == "raw" and counts[kind, "raised"]:
                    continue
                before, after = pair["before"][kind], pair["after"][kind]
                # A run sends its tools with every prompt, whatever was called.
                tools = tools_of(before + after)
                fitting = [wrapped for wrapped in (False, True) if verdict(before, tools, wrapped) is None]
                if not fitting:
                    continue
                counts[kind, "taken"] += 1
                errors = [verdict(after, tools, wrapped) for wrapped in fitting]
                if all(errors):
                    counts[kind, "raised"] += 1
                    if kind == form:
                        raised.append((pair["id"], pair["cut"], pair["strategy"], pair["target"], errors[0]))
    return name, (counts, raised, strict)


def render(packages, program, path):
    files = sorted(pathlib.Path(packages).rglob("*.jinja"))
    sources = {}
    for file in files:
        sources.setdefault(file.read_text(encoding="utf8"), file.stem)
    names = list(sources.values())
    strict = set(subprocess.run([program, "--strict", *names], check=True, capture_output=True, text=True).stdout.split("\n"))
    tasks = [(name, source, name in strict, path) for source, name in sources.items()]
    totals, with_prompts, breaking, unsent = collections.Counter(), 0, {}, 0
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for name, found in pool.map(judge, tasks, chunksize=4):
            if found is None:
                continue
            counts, raised, is_strict = found
            form = "strict" if is_strict else "plain"
            with_prompts += counts[form, "taken"] > 0
            totals["taken"] += counts[form, "taken"]
            totals["raised"] += counts[form, "raised"]
            unsent += counts["raw", "raised"] > 0
            if raised:
                breaking[name] = raised
    with open(path, encoding="utf8") as f:
        pairs = sum(1 for _ in f)
    print("%d templates, %d pairs of prompts; %d templates take at least one of them before compaction, %d prompts in all"
          % (len(tasks), pairs, with_prompts, totals["taken"]))
    print("templates that would raise after compaction, were each message sent by itself: %d" % unsent)
    print("templates that take the prompt before compaction and raise after: %d (%d prompts)" % (len(breaking), totals["raised"]))
    for name, raised in sorted(breaking.items()):
        print("  %s: %s" % (name, raised[0]))
    # If nothing raised at the messages one by one, the prompts would prove nothing.
    return 1 if breaking or not unsent else 0


if __name__ == "__main__":
    if sys.argv[1] == "sessions":
        sessions()
    else:
        sys.exit(render(*sys.argv[2:5]))
