"""The panel's server: what each answer takes, its memory, and what waiting costs."""

from __future__ import annotations

import base64
import http.client
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from _dashboards import MIDFLIGHT, SIZES, SPIKE, memory_mb, served
from _measure import verdict

from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.tasks import Task

ROUNDS = 7


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


def ask(connection: http.client.HTTPConnection, url: str) -> tuple[float, bytes]:
    began = time.perf_counter()
    connection.request("GET", url)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    return time.perf_counter() - began, body


def answers(name: str, path: Path, urls: list[str]) -> dict[str, float]:
    """Prints the median of each answer; the server's memory behind them."""
    found = {}
    with served(MIDFLIGHT, path, SIZES["a"]) as (port, pid):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        idle, _ = memory_mb(pid)
        for url in urls:
            times, bodies = zip(*(ask(connection, url) for _ in range(ROUNDS)), strict=True)
            found[url] = statistics.median(times)
            print(
                f"  {name}  {found[url] * 1e3:8.1f} ms, first {times[0] * 1e3:8.1f} ms, {len(bodies[0]):>10,} B"
                f"  {url[:70]}"
            )
        after, most = memory_mb(pid)
        found["memory"] = after
        print(f"  {name}  {idle:.0f} MB idle, {after:.0f} MB after, {most:.0f} MB at most")
    return found


def spike_is_there(path: Path) -> bool:
    """Whether the spike of one step is in the overview of a million, and in the overview of any zoom on it."""
    with served(MIDFLIGHT, path, SIZES["a"]) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for low, high in ((0, 999_999), (SPIKE - 100_000, SPIKE + 100_000), (SPIKE - 50, SPIKE + 50)):
            url = f"/api/series?high={min(high, 999_999)}&keys=train/metric00&low={max(0, low)}&runs=1"
            answer: dict[str, Any] = json.loads(ask(connection, url)[1])
            data = np.frombuffer(base64.b64decode(answer["data"]), "<f4")
            if not (np.nanmax(data) > np.nanmedian(data) + 50):
                return False
    return True


def waiting(path: Path) -> int:
    """Bytes of a poll when nothing is new, head included."""
    with served(MIDFLIGHT, path, SIZES["a"]) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        token = json.loads(ask(connection, "/api/projects")[1])["since"]
        connection.request("GET", f"/api/changes?since={token}")
        response = connection.getresponse()
        return len(response.read()) + sum(len(name) + len(value) + 4 for name, value in response.getheaders()) + 17


def server(paths: dict[str, Path]) -> list[bool]:
    """Prints what each answer takes; whether the goals are met.

    Args:
        paths: Stores of `SIZES`, and `e` of evaluations.
    """
    print(f"the panel's server alone, median of {ROUNDS} answers")
    first = ["/api/projects", "/api/runs"]
    twelve = ",".join(SIZES["b"].names[:12])

    def series(count: int, keys: str, zoom: str = "") -> str:
        return f"/api/series?{zoom}keys={keys}&runs={','.join(map(str, range(1, count + 1)))}"

    urls = {
        "a": [*first, series(10, twelve), "/api/runs/1"],
        "b": [*first, series(100, twelve), series(100, twelve, "high=400&low=200&")],
        "c": [*first, series(1, "*"), series(1, "*", "high=400000&low=200000&")],
        "d": [*first, series(1000, "*")],
        "e": [*first, "/api/runs/1", "/api/runs/1?reference=run:2", "/api/compare?baseline=1&candidates=2,3",
              "/api/items?run=1&task=sums", "/api/item?item=q17&runs=1,2,3&task=sums", "/api/evaluations"],
    }  # fmt: skip
    found = {key: answers(key, paths[key], own) for key, own in urls.items()}
    return [
        verdict("all charts of b's first screen", found["b"][series(100, twelve)], 0.5, "s"),
        verdict("zoom of b", found["b"][series(100, twelve, "high=400&low=200&")], 0.25, "s"),
        verdict("overview of a million points", found["c"][series(1, "*")], 0.1, "s"),
        verdict("zoom of a million points", found["c"][series(1, "*", "high=400000&low=200000&")], 0.1, "s"),
        verdict("1,000 lines", found["d"][series(1000, "*")], 0.5, "s"),
        verdict("memory", max(one["memory"] for one in found.values()), 80, "MB"),
        verdict("bytes of a poll when nothing is new", waiting(paths["a"]), 1000, "B"),
        verdict("a spike of one step that is lost", float(not spike_is_there(paths["c"])), 0, "spikes"),
    ]
