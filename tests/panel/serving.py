"""Stores to look at, and a real server process to look at them through."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from midflight.engines import Fake
from midflight.panel.answers.base import ask
from midflight.panel.plain import encode
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.tasks import Task

N = 24
HOSTILE = "</script><script>alert(1)</script>\u202egnp\u0007\x1b[31m {{ 7*7 }} \"'&<b>"


def task(name="sums", n=N, **spec):
    rows = [{"id": f"i{a}", "a": a, "text": HOSTILE, "kind": "even" if a % 2 == 0 else "odd"} for a in range(n)]
    fields = {"id": "id", "prompt": "{{ a }}+1=", "target": "a + 1", "metrics": ["exact_match", "response_length"]}
    return Task(name, rows, slices={"kind": "kind"}, **{**fields, **spec})


def solver(solved):
    """A model that answers these items right, and the others with something nasty."""
    return Fake(lambda q: str(int(q.item_id[1:]) + 1) if int(q.item_id[1:]) in solved else HOSTILE)


def fill(store, runs=2, checkpoints=4, steps=100):
    """Runs with curves and evaluations: each checkpoint learns four items, and the second forgets the first item."""
    one, likelihood = (
        task(),
        Task(
            "bpb",
            [{"id": "x", "t": "a b"}, {"id": "y", "t": "c"}],
            id="id",
            prompt="p",
            text="{{ t }}",
            kind="loglikelihood",
            metrics=["perplexity"],
        ),
    )
    for number in range(runs):
        config = {"lr": 1e-5 * (number + 1), "optim": {"name": "adam"}, "note": HOSTILE}
        with Run("p", f"r-seed{number}", config, store=store, tags=["t", f"n{number}"], resume="never") as run:
            for checkpoint in range(checkpoints):
                for step in range(checkpoint * steps, (checkpoint + 1) * steps):
                    run.log(
                        step, loss=2 - step / 1000 + number, epoch=step / 100, nasty=float("nan") if step == 7 else 1.0
                    )
                solved = set(range(4 * checkpoint + 2 + number)) - ({0} if checkpoint else set())
                engine = solver(solved)
                engine.version = f"{number}-{checkpoint}"
                for each in (one, likelihood):
                    evaluate_checkpoint(each, engine, run=run, progress=Progress(checkpoint * steps, checkpoint))
    return store


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return self.json["error"]["message"]


@dataclass
class Server:
    """`midflight serve` in a process of its own."""

    store: str
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "midflight", "serve", "--store", self.store, "--port", "0", *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )
        self.said = self.process.stdout.readline()
        found = re.search(r"http://(\S+):(\d+)/", self.said)
        if found is None:
            raise AssertionError(self.said + self.process.stderr.read())
        self.host, self.port = found[1].strip("[]"), int(found[2])
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.output = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def get(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        connection = self.connect()
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        found = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return found

    def memory_mb(self) -> float:
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024


def answered(panel, url):
    """What a browser gets for a URL."""
    return json.loads(encode(ask(panel, url)))
