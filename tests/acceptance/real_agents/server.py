#!/usr/bin/env python3
"""A scripted model server: answers "done" in Anthropic's, OpenAI's Responses and chat protocols, and saves each request."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[2])


def events(pairs):
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in pairs)


def anthropic():
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    kinds = [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "done"}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}),
        ("message_stop", {}),
    ]
    return events((kind, {"type": kind, **data}) for kind, data in kinds)


def responses():
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "done", "annotations": []}]}
    usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10,
             "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    done = {"id": "r", "object": "response", "status": "completed", "output": [item], "usage": usage}
    kinds = [
        ("response.created", {"response": {"id": "r", "status": "in_progress", "output": []}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": done}),
    ]
    return events((kind, {"type": kind, **data}) for kind, data in kinds)


def chat():
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    first = {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "done"}, "finish_reason": None}]}
    last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}
    return f"data: {json.dumps(first)}\n\ndata: {json.dumps(last)}\n\ndata: [DONE]\n\n"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, kind):
        body = body.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(json.dumps({"data": [], "models": []}), "application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self.answer('{"input_tokens": 9}', "application/json")
        for end, answer in (("/messages", anthropic), ("/responses", responses), ("/chat/completions", chat)):
            if path.endswith(end):
                number = len(list(FOLDER.glob("*.json")))
                (FOLDER / f"{number:03}.json").write_bytes(body)
                return self.answer(answer(), "text/event-stream")
        self.answer("{}", "application/json")


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
