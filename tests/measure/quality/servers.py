"""Servers of a known language model: the next token is likely by how near it is to the last."""

import http.server
import itertools
import json
import math
import threading
from contextlib import contextmanager

VOCABULARY = 64


def tokens_of(text):
    return [sum(word.encode()) % VOCABULARY for word in text.split()]


def logprob(last, token):
    weights = [math.exp(-abs(other - last) / 9) for other in range(VOCABULARY)]
    return math.log(weights[token] / sum(weights))


class Model(http.server.BaseHTTPRequestHandler):
    kind, faults, seen = "echo", {}, []

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/v1/models":
            return self.say({"data": [{"id": "known"}]})
        if self.path == "/props" and self.kind == "llama.cpp":
            return self.say({"total_slots": 2, "default_generation_settings": {"n_ctx": 300}})
        return self.say({"error": {"message": "no such route"}}, 404)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, asked))
        if self.path in self.faults:
            return self.say(*self.faults[self.path])
        if self.path == "/tokenize":
            tokens = tokens_of(asked.get("prompt") or asked.get("content"))
            if asked.get("with_pieces"):
                # every eleventh is a part of a character
                tokens = [{"id": t, "piece": [200 + t] if t % 11 == 0 else "x"} for t in tokens]
            return self.say({"tokens": tokens})
        if self.path == "/v1/completions":
            return self.say({"choices": [self.completion(asked)]})
        return self.say({"completion_probabilities": list(self.forced(asked))})

    def completion(self, asked):
        prompt = asked["prompt"]
        if not asked.get("echo"):
            return {"text": f" The answer is {len(prompt.split())}."}
        if self.kind == "mute":
            return {"text": "x", "logprobs": None}
        told = [logprob(*pair) for pair in itertools.pairwise(prompt)]
        return {"logprobs": {"token_logprobs": [None, *told, -0.5]}}

    def forced(self, asked):
        last = asked["prompt"][-1]
        words = asked["grammar"].removeprefix("root ::= ").split()
        tokens = [int(word.strip("<[]>")) for word in words]
        assert all(token % 11 for token in tokens), "a grammar of half characters"
        assert len(tokens) == asked["n_predict"]
        for token in tokens:
            told = [{"id": t, "logprob": logprob(last, t)} for t in range(VOCABULARY)]
            yield {**told[token], "top_logprobs": told[: asked["n_probs"]]}
            last = token

    def say(self, document, status=200):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(kind, **faults):
    """Its URL, and what it was asked."""
    named = {f"/{route.replace('_', '/', 1) if route.startswith('v1') else route}": answer
             for route, answer in faults.items()}  # fmt: skip
    handler = type("Served", (Model,), {"kind": kind, "faults": named, "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.seen
    finally:
        server.shutdown()
        server.server_close()
