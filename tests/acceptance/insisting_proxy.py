"""Stands before a llama.cpp server whose model is noise: insists on tool calls, and notes what each request took.

usage: insisting_proxy.py PORT UPSTREAM NOTES.jsonl

Requests go through as they are, with a demand for calls and a liking for quotes added; an answer that is no call is asked
for again. Every line of the notes is a request: its messages, tokens of its prompt, and those found in the cache; or the
error that it was answered with.
"""

import http.server
import json
import sys
import urllib.error
import urllib.request

port, upstream, notes = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def post(path, body):
    request = urllib.request.Request(upstream + path, json.dumps(body).encode(), {"content-type": "application/json"})
    return urllib.request.urlopen(request).read()


def token(text):
    return json.loads(post("/tokenize", {"content": text}))["tokens"][-1]


# Quotes end the strings that noise would go on with; blanks and line ends are what it loses itself in.
BIAS = [[token('"'), 5.5], [token("}"), 1.0], [2, 3.0], [token(" "), -6.0]] + [[3 + c, -20.0] for c in (9, 10, 13)]


def note(**what):
    with open(notes, "a") as file:
        file.write(json.dumps(what) + "\n")


class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with urllib.request.urlopen(upstream + self.path) as answer:
            self.answer(answer.status, answer.headers["content-type"], answer.read())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("tools"):
            body |= {"tool_choice": "required", "logit_bias": BIAS}
        first = None
        for _ in range(12):
            try:
                answer = post(self.path, body)
                # A request that is repeated finds all of itself in the cache.
                first = first or answer
            except urllib.error.HTTPError as error:
                text = error.read()
                note(messages=len(body["messages"]), status=error.code, error=json.loads(text)["error"])
                return self.answer(error.code, "application/json", text)
            if not body.get("tools") or b'"finish_reason":"tool_calls"' in answer:
                break
        for line in first.decode().splitlines():
            usage = json.loads(line[6:]).get("usage") if line.startswith("data: {") else None
            if usage:
                cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
                note(messages=len(body["messages"]), prompt=usage["prompt_tokens"], cached=cached, tools=bool(body.get("tools")))
        self.answer(200, "text/event-stream", answer)

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", port), Proxy).serve_forever()
