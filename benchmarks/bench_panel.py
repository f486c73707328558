"""The panel's server: what each answer takes, its memory, what waiting costs, and how soon a point is told.

Data sets, of which a to d are those of research/panel.md: a = 10 runs of 20 series of 1,000 points, b = 100 runs, c = a
series of a million points with a spike at a random step, d = 1,000 runs of 100 points, e = 3 runs of 20 evaluations of
500 items.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _measure import verdict

from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store import open_store
from midflight.store.base import Block
from midflight.tasks import Task

ROUNDS = 7
SPIKE = random.Random(0).randrange(1_000_000)


def curves(path: Path, runs: int, keys: int, points: int) -> None:
    store, rng = open_store(str(path)), np.random.default_rng(0)
    names = tuple(f"train/metric{key:02}" for key in range(keys))
    for number in range(runs):
        run = store.create_run("bench", f"run-{number:04}", owner="nobody:1:1")
        values = np.cumsum(rng.normal(size=(keys, points)), axis=1) / 30
        if points == 1_000_000:
            values[:, SPIKE] += 100.0
        steps = np.arange(points)
        store.append_points(run.id, 1, [Block(names, steps, run.created + steps * 0.5, values)])
        store.finish_run(run.id, "finished")


def evaluations(path: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"What is {n} + {n}? " * 10, "n": n} for n in range(500)]
    task = Task(
        "sums", rows, id="id", prompt="{{ question }}", target="n * 2", metrics=["exact_match", "response_length"]
    )
    for number in range(3):
        with Run("bench", f"e-seed{number}", store=str(path), resume="never") as run:
            for checkpoint in range(20):
                draw = random.Random(number * 100 + checkpoint)
                right = {f"q{n}" for n in range(500) if draw.random() < 0.2 + checkpoint / 40}
                engine = Fake(
                    lambda q, right=right: (
                        str(int(q.item_id[1:]) * 2) if q.item_id in right else "I do not know. " * 20
                    ),
                    version=f"{number}-{checkpoint}",
                )
                evaluate_checkpoint(task, engine, run=run, progress=Progress(checkpoint * 100))
                run.log(checkpoint * 100, loss=1.0)


@contextmanager
def served(path: Path) -> Iterator[tuple[http.client.HTTPConnection, int]]:
    command = [sys.executable, "-m", "midflight", "serve", "--store", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(re.search(r":(\d+)/", process.stdout.readline())[1])  # type: ignore[index]
    try:
        yield http.client.HTTPConnection("127.0.0.1", port, timeout=60), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def ask(connection: http.client.HTTPConnection, url: str) -> tuple[float, bytes]:
    began = time.perf_counter()
    connection.request("GET", url)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    return time.perf_counter() - began, body


def memory_mb(pid: int, what: str = "VmRSS") -> float:
    return int(re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024  # type: ignore[index]


def answers(name: str, path: Path, urls: list[str]) -> dict[str, float]:
    """Prints the median of each answer; the server's memory behind them."""
    found = {}
    with served(path) as (connection, pid):
        idle = memory_mb(pid)
        for url in urls:
            times, bodies = zip(*(ask(connection, url) for _ in range(ROUNDS)), strict=True)
            found[url] = statistics.median(times)
            print(
                f"  {name}  {found[url] * 1e3:8.1f} ms, first {times[0] * 1e3:8.1f} ms, {len(bodies[0]):>10,} B"
                f"  {url[:70]}"
            )
        found["memory"] = memory_mb(pid)
        print(f"  {name}  {idle:.0f} MB idle, {found['memory']:.0f} MB after, {memory_mb(pid, 'VmHWM'):.0f} MB at most")
    return found


def spike_is_there(path: Path) -> bool:
    """Whether the spike of one step is in the overview of a million, and in the overview of any zoom on it."""
    with served(path) as (connection, _):
        for low, high in ((0, 999_999), (SPIKE - 100_000, SPIKE + 100_000), (SPIKE - 50, SPIKE + 50)):
            url = f"/api/series?high={min(high, 999_999)}&keys=train/metric00&low={max(0, low)}&runs=1"
            answer: dict[str, Any] = json.loads(ask(connection, url)[1])
            data = np.frombuffer(base64.b64decode(answer["data"]), "<f4")
            if not (np.nanmax(data) > np.nanmedian(data) + 50):
                return False
    return True


def waiting(path: Path) -> int:
    """Bytes of a poll when nothing is new, head included."""
    with served(path) as (connection, _):
        token = json.loads(ask(connection, "/api/projects")[1])["since"]
        connection.request("GET", f"/api/changes?since={token}")
        response = connection.getresponse()
        return len(response.read()) + sum(len(name) + len(value) + 4 for name, value in response.getheaders()) + 17


WRITER = """
import sys, time
from midflight.run import Run
with Run("live", "writer", store=sys.argv[1], resume="never") as run:
    for step in range(40):
        run.log(step, loss=1.0, at=time.time())
        time.sleep(0.23)
"""


def delays(folder: Path) -> list[float]:
    """Seconds from `run.log` in a training to the point's arrival over the stream and the request that follows."""
    path, found = folder / "live.db", []
    open_store(str(path))
    with served(path) as (connection, _):
        token = json.loads(ask(connection, "/api/projects")[1])["since"]
        stream = http.client.HTTPConnection("127.0.0.1", connection.port, timeout=60)
        stream.request("GET", f"/api/events?since={token}")
        events = stream.getresponse()
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        seen = -1
        while seen < 39:
            line = events.readline()
            if line.startswith(b"data: "):
                url = f"/api/series?keys=at&low={seen + 1}&runs=1"
                answer = json.loads(ask(connection, url)[1])
                now = time.time()
                steps = np.frombuffer(base64.b64decode(answer["steps"]), "<f8")
                walls = open_store(str(path)).read_points(1, "at", seen + 1).values[: len(steps)]
                found += [now - wall for wall in walls.tolist()]
                seen = int(steps[-1]) if len(steps) else seen
        writer.wait()
        stream.close()
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = {"a": (10, 20, 1000), "b": (100, 20, 1000), "c": (1, 1, 1_000_000), "d": (1000, 1, 100)}
        paths = {key: folder / f"{key}.db" for key in (*sizes, "e")}
        for key, (runs, keys, points) in sizes.items():
            curves(paths[key], runs, keys, points)
        evaluations(paths["e"])
        print("panel server, median of seven answers")
        first = ["/api/projects", "/api/runs"]
        twelve = ",".join(f"train/metric{key:02}" for key in range(12))

        def series(count: int, keys: str, zoom: str = "") -> str:
            return f"/api/series?{zoom}keys={keys}&runs={','.join(map(str, range(1, count + 1)))}"

        found = {
            "a": answers("a", paths["a"], [*first, series(10, twelve), "/api/runs/1"]),
            "b": answers("b", paths["b"], [*first, series(100, twelve), series(100, twelve, "high=400&low=200&")]),
            "c": answers("c", paths["c"], [*first, series(1, "*"), series(1, "*", "high=400000&low=200000&")]),
            "d": answers("d", paths["d"], [*first, series(1000, "*")]),
            "e": answers(
                "e",
                paths["e"],
                [*first, "/api/runs/1", "/api/runs/1?reference=run:2", "/api/compare?baseline=1&candidates=2,3",
                 "/api/items?run=1&task=sums", "/api/item?item=q17&runs=1,2,3&task=sums", "/api/evaluations"],
            ),
        }  # fmt: skip
        told = delays(folder)
        goals = [
            verdict("all charts of b's first screen", found["b"][series(100, twelve)], 0.5, "s"),
            verdict("zoom of b", found["b"][series(100, twelve, "high=400&low=200&")], 0.25, "s"),
            verdict("overview of a million points", found["c"][series(1, "*")], 0.1, "s"),
            verdict("zoom of a million points", found["c"][series(1, "*", "high=400000&low=200000&")], 0.1, "s"),
            verdict("1,000 lines", found["d"][series(1000, "*")], 0.5, "s"),
            verdict("memory", max(one["memory"] for one in found.values()), 80, "MB"),
            verdict("bytes of a poll when nothing is new", waiting(paths["a"]), 1000, "B"),
            verdict("median from run.log to its arrival", statistics.median(told), 1.0, "s"),
            verdict("a spike of one step that is lost", float(not spike_is_there(paths["c"])), 0, "spikes"),
        ]
    return 0 if all(goals) else 1


if __name__ == "__main__":
    sys.exit(main())
