"""A small language model reads what a compaction left and is asked, token by token, what the agent really did next (reader.md).

  reader.py MODEL.gguf [--sessions 12] [--budget 20] [--policies forge,keep_last,forge:clear_tool_results] ...

Needs xllamacpp (the library) and llama-cpp-py-sync (its C declarations), numpy and cffi.
"""
import argparse, os, random, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measures as M, policies, recordings
from recordings import message_text

WINDOW, PINNED, TAIL, SCORED = 5000, 400, 150, 170      # tokens
HEADS = {"system": "### system\n", "user": "### user\n", "assistant": "### assistant\n", "tool": "### result\n"}


class Model:
    """A GGUF model that tells how unlikely each token of a text is after another text."""

    def __init__(self, path, threads=1, window=12_288, step=512):
        import numpy, xllamacpp
        from llama_cpp_py_sync import _cffi_bindings as declared
        self.np, self.ffi = numpy, declared.ffi
        folder = os.path.dirname(xllamacpp.__file__)
        self.lib = lib = self.ffi.dlopen(os.path.join(folder, next(f for f in os.listdir(folder) if f.endswith(".so"))))
        self.quiet = self.ffi.callback("ggml_log_callback", lambda level, text, data: None)
        lib.llama_log_set(self.quiet, self.ffi.NULL)
        lib.llama_backend_init()
        settings = lib.llama_context_default_params()
        if (settings.n_ctx, settings.n_batch, settings.n_ubatch) != (512, 2048, 512):
            raise SystemExit("llama-cpp-py-sync declares another version than xllamacpp has: install the versions of reader.md")
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_seq_max = window, step, step, 1
        settings.n_threads = settings.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, settings)
        self.vocabulary = lib.llama_model_get_vocab(self.model)
        self.size, self.step = lib.llama_vocab_n_tokens(self.vocabulary), step
        self.batch = lib.llama_batch_init(step, 0, 1)

    def tokens(self, text, first=False):
        data = text.encode("utf8", "replace")
        out = self.ffi.new("llama_token[]", len(data) + 8)
        return list(out[0:self.lib.llama_tokenize(self.vocabulary, data, len(data), out, len(data) + 8, first, False)])

    def surprise(self, before, parts):
        """Returns the mean of -log p over the tokens of the parts that are scored; parts: [(text, scored)]."""
        known, tokens, scored = self.tokens(before, True), [], []
        for text, counts in parts:
            new = self.tokens(text)
            tokens += new
            scored += [counts] * len(new)
        lib, every, total = self.lib, known + tokens, 0.0
        wanted = [k >= len(known) - 1 and k + 1 < len(every) and scored[k + 1 - len(known)] for k in range(len(every))]
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        for start in range(0, len(every), self.step):
            piece = every[start:start + self.step]
            self.batch.n_tokens = len(piece)
            for k, token in enumerate(piece):
                self.batch.token[k], self.batch.pos[k], self.batch.n_seq_id[k], self.batch.seq_id[k][0] = token, start + k, 1, 0
                self.batch.logits[k] = int(wanted[start + k])
            if lib.llama_decode(self.context, self.batch):
                raise RuntimeError("the model could not read %d tokens" % len(every))
            for k in range(len(piece)):
                if wanted[start + k]:
                    row = self.np.frombuffer(self.ffi.buffer(lib.llama_get_logits_ith(self.context, k), 4 * self.size), dtype=self.np.float32)
                    top = row.max()
                    total += float(top + self.np.log(self.np.exp(row - top).sum(dtype=self.np.float64)) - row[every[start + k + 1]])
        return total / max(1, sum(scored))


def shorten(text, tokens):
    return policies.clip(text, tokens, 1.0)


def render(messages, pinned=0):
    """Returns the messages as one plain transcript, the same form for all; the pinned ones are shortened for all alike."""
    return "".join(HEADS["system" if m["role"] == "developer" else m["role"]] + (shorten(message_text(m), PINNED) if k < pinned and len(message_text(m)) < 4 * WINDOW and "<record>" not in message_text(m) else message_text(m)) + "\n\n"
                   for k, m in enumerate(messages))


def future(messages):
    """Returns [(text, scored)]: what the agent said and called is scored, the results between are read in short."""
    parts, left = [], SCORED
    for m in messages:
        if left < 10:
            break
        text = message_text(m)
        if m["role"] == "assistant":
            text = text[:int(min(60, left)) * 4]
            left -= policies.pieces(text)
            parts += [(HEADS["assistant"], False), (text, True), ("\n\n", False)]
        else:
            parts.append((HEADS[m["role"]] + text[:120] + "\n\n", False))
    return parts


def window(session, cut):
    """Returns (the pinned head and the newest messages before a cut, about WINDOW tokens; the same end for all; what follows it)."""
    ms, size, start = session.messages, 0, cut
    first = next(i for i, m in enumerate(ms) if m["role"] == "user")
    while start > first + 1 and size < WINDOW:
        start -= 1
        size += policies.size(ms[start])
    while start < cut and ms[start]["role"] == "tool":
        start += 1
    end = cut + 1
    while end < len(ms) and ms[end]["role"] == "tool":
        end += 1
    head = [dict(m, content=shorten(m["content"], PINNED)) for m in ms[:first + 1]]
    body = [dict(m, content=shorten(m["content"], 2500)) if m["role"] == "tool" else m for m in ms[start:cut]]
    tail = [dict(m, content=shorten(m["content"] or "", TAIL)) for m in ms[cut:end]]
    return head + body, tail, ms[end:end + 16]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--corpus", default=os.environ.get("FORGE_CORPUS"))
    p.add_argument("--forge", default=os.environ.get("FORGE_BINARY", "target/release/forge"))
    p.add_argument("--sessions", type=int, default=12)
    p.add_argument("--skip", type=int, default=0)
    p.add_argument("--cuts", default="50,80")
    p.add_argument("--budget", type=int, default=20)
    p.add_argument("--policies", default="forge,forge:clear_tool_results,keep_last,lines,brief")
    p.add_argument("--threads", type=int, default=1)
    o = p.parse_args()
    model, names, rows = Model(o.model, o.threads), o.policies.split(","), {}
    started = time.time()
    for s in recordings.load(o.corpus)[o.skip:o.skip + o.sessions]:
        for share, cut in s.cuts([int(c) for c in o.cuts.split(",")]):
            messages, tail, following = window(s, cut)
            parts = future(following)
            if len(messages) < 6 or sum(len(t) for t, scored in parts if scored) < 120:
                continue
            with tempfile.TemporaryDirectory() as folder:
                task = policies.Task(messages, s.claude, policies.Forge(o.forge, folder), o.budget)
                if task.total > 3 * WINDOW:
                    continue
                views = {name: policies.run(name, task)[0] for name in names}
            end = render(tail)
            nats = {name: model.surprise(render(view) + end, parts) for name, view in views.items() if view}
            floor, full = model.surprise(render(task.head()) + end, parts), model.surprise(render(messages) + end, parts)
            for name, value in nats.items():
                rows.setdefault(name, {}).setdefault(s.name, []).append((value, floor, full))
            print("%-26s %3d %%  none %.3f  " % (s.name, share, floor) + "  ".join("%s %.3f" % x for x in nats.items()) + "  all %.3f" % full, flush=True)
    print("\n%-26s %8s %12s   95 %% of the difference to %s" % ("nats per token", "mean", "recovered", names[0]))
    means = {n: {s: M.mean(v[0] for v in vs) for s, vs in by.items()} for n, by in rows.items()}
    for name, by in rows.items():
        # The share of what the full window tells, of sums: single windows may tell next to nothing.
        gain, whole = (sum(M.mean(v[1] - v[k] for v in vs) for vs in by.values()) for k in (0, 2))
        diff, rng = [means[name][s] - means[names[0]][s] for s in by if s in means[names[0]]], random.Random(1)
        draws = sorted(sum(rng.choices(diff, k=len(diff))) / len(diff) for _ in range(2000))
        print("%-26s %8.3f %11.2f    %+.3f [%+.3f, %+.3f]" % (name, M.mean(means[name].values()), gain / whole if whole else 0, M.mean(diff), draws[50], draws[1949]))
    print("%d sessions, %.0f s" % (len(means.get(names[0], {})), time.time() - started))


if __name__ == "__main__":
    main()
