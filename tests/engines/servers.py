"""HTTP servers for tests: one that follows a script of faults, and one that runs a real model and echoes prompts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes | Iterable[bytes]]
"""Status, headers and body; a body in parts needs a `content-length` among the headers."""


def ok(body: Any) -> Answer:
    return 200, {"content-type": "application/json"}, json.dumps(body).encode()


def chat(text: str, finish: str = "stop") -> Answer:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return ok(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
    )


def error(status: int, message: str = "scripted", **headers: str) -> Answer:
    body = json.dumps({"error": {"message": message, "type": "x", "code": status}}).encode()
    return status, {"content-type": "application/json", **headers}, body


def trickle(released: threading.Event) -> Answer:
    """An answer that goes on for ever, a byte at a time."""

    def parts() -> Iterator[bytes]:
        while not released.wait(0.02):
            yield b" "

    return 200, {"content-type": "application/json", "content-length": "1000000"}, parts()


class Server:
    """Answers POST requests by a function of path and body; counts them and how many are in flight at once."""

    def __init__(self, respond: Callable[[str, dict[str, Any]], Answer | None]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.in_flight = self.most_in_flight = 0
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(
                    ok({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "me"}]})
                )

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    outer.requests.append(body)
                    outer.in_flight += 1
                    outer.most_in_flight = max(outer.most_in_flight, outer.in_flight)
                try:
                    answer = respond(self.path, body)
                finally:
                    with lock:
                        outer.in_flight -= 1
                if answer is None:  # the connection is dropped without a word
                    self.close_connection = True
                    self.connection.close()
                else:
                    self._send(answer)

            def _send(self, answer: Answer) -> None:
                status, headers, body = answer
                try:
                    self.send_response(status)
                    length = {"content-length": str(len(body))} if isinstance(body, bytes) else {}
                    for name, value in {**length, **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    for part in [body] if isinstance(body, bytes) else body:
                        self.wfile.write(part)
                except OSError:
                    pass  # the client has gone

            def log_message(self, *args: Any) -> None:
                pass

        class Http(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._http = Http(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


def echoing(model: Any, tokenizer: Any, shift: int = 0) -> Callable[[str, dict[str, Any]], Answer]:
    """Completions of a real model in vLLM's form: the prompt echoed with a log-probability for each of its tokens.

    Args:
        model: A causal language model.
        tokenizer: Its tokenizer.
        shift: By how many places the log-probabilities are wrong, as with llama-cpp-python 0.3.16.
    """
    import torch

    def respond(path: str, body: dict[str, Any]) -> Answer:
        ids = tokenizer.encode(body["prompt"])
        with torch.no_grad():
            logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        new = logprobs[-1].argmax().item()
        ids = [*ids, new]
        with torch.no_grad():
            logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        texts = [tokenizer.decode([token]) for token in ids]
        values: list[float | None] = [None]
        top: list[dict[str, float] | None] = [None]
        for place in range(1, len(ids)):
            row = logprobs[min(place - 1 + shift, len(ids) - 1)]
            best = row.argmax().item()
            values.append(row[ids[place]].item())
            top.append({texts[place]: values[-1], tokenizer.decode([best]): row[best].item()})
        offsets = [sum(map(len, texts[:i])) for i in range(len(texts))]
        choice = {
            "index": 0,
            "text": "".join(texts),
            "finish_reason": "length",
            "logprobs": {"tokens": texts, "token_logprobs": values, "top_logprobs": top, "text_offset": offsets},
        }
        return ok(
            {
                "id": "1",
                "object": "text_completion",
                "created": 1,
                "model": "m",
                "choices": [choice],
                "usage": {"prompt_tokens": len(ids) - 1, "completion_tokens": 1, "total_tokens": len(ids)},
            }
        )

    return respond
