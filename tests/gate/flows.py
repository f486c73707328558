"""What tests of workflows share: checkpoints, verdicts, workflow files, an HTTP server that follows a script."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from midflight.gate.workflow import WorkflowExecutor
from midflight.records import EXIT_CODES, Subject, Verdict
from midflight.schema import verdict_to_json


def checkpoint(step: int = 5, size: int = 3_000, folder: str = "ckpt") -> Path:
    """A folder that looks like a checkpoint; its weights depend on the step."""
    path = Path(folder) / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "config.json").write_text('{"model_type": "llama"}')
    (path / "model.safetensors").write_bytes(bytes([step % 256]) * size)
    (path / "optimizer.pt").write_bytes(b"pickled")
    return path


def verdict(outcome: str = "pass", id: str = "v1", step: int | None = 5, **changes: Any) -> Verdict:
    subject = Subject("mt4@5", "math", "mt4", step, "abcd", {"gsm8k": "e1"})
    reasons = [] if outcome == "pass" else ["gsm8k <dropped> & fell"]
    assert outcome in EXIT_CODES
    values = {
        "id": id,
        "outcome": outcome,
        "policy": "release",
        "policy_digest": "d" * 64,
        "candidate": subject,
        "baseline": None,
        "decisions": [],
        "reasons": reasons,
        "alpha": 0.05,
        "look": 1,
        "created_at": 1.0,
    }
    return Verdict(**{**values, **changes})


def write_verdict(outcome: str = "pass", path: str = "verdict.json", **changes: Any) -> Path:
    Path(path).write_text(verdict_to_json(verdict(outcome, **changes)))
    return Path(path)


def workflow(*steps: dict[str, Any], path: str = "workflow.toml") -> Path:
    """A workflow's file; JSON's texts, numbers and lists are TOML's too."""
    tables = ["\n".join(f"{key} = {_toml(value)}" for key, value in step.items()) for step in steps]
    Path(path).write_text("".join(f"[[steps]]\n{table}\n\n" for table in tables))
    return Path(path)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value)


def python(code: str) -> list[str]:
    """A program of a line of Python, without what a site brings, so that it starts fast."""
    return [sys.executable, "-S", "-c", code]


def promote(target: str = "models/production", **fields: Any) -> dict[str, Any]:
    return {"name": "promote", "kind": "promote", "target": target, **fields}


def command(name: str, code: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": "command", "run": python(code), **fields}


def executor(path: Path | str = "workflow.toml", store: Any = "s.db", **options: Any) -> WorkflowExecutor:
    return WorkflowExecutor(path, store, **{"sleep": lambda _: None, **options})


def midflight(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "midflight", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **options)


def events(store: Any, execution: str | None = None) -> list[tuple[str, str]]:
    return [(event.step, event.event) for event in store.audit(execution=execution)]


Answer = tuple[int, dict[str, str], bytes]


class Hook:
    """Answers each POST with the next answer of a script, the last one again and again; keeps what came.

    Args:
        answers: Status, headers and body; a callable is called with the handler and answers itself.
    """

    def __init__(self, *answers: Answer | Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.bodies.append(json.loads(body))
                outer.headers.append(dict(self.headers))
                answer = answers[min(len(outer.bodies), len(answers)) - 1]
                if callable(answer):
                    answer(self)
                    return
                status, headers, content = answer
                self.send_response(status)
                for name, value in {"content-length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/hook"

    @contextmanager
    def running(self) -> Iterator[Hook]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()
