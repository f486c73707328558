"""A training that goes on while browsers look: what `run.log` costs it, and how soon its points are on the screen."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from _dashboards import MIDFLIGHT, PROJECT, SIZES, served, write_midflight
from _measure import verdict
from _reader import Reader

BROWSERS = 20
READINGS = 40
SECONDS = 30
"""So many readings of the chart, or as many as there are in that time."""
EVERY_S = 0.05
"""Between two records of the training."""
CALLS = 400
"""Records of which the costs are compared, in each of the turns."""

_WRITER = """
import json, sys, time
from midflight.run import Run
store, project, every, calls, *names = sys.argv[1:]
at, took = [], []
with Run(project, "live", store=store, resume="never") as run:
    print(run.id, flush=True)
    for step in range(int(calls)):
        values = {name: step / (1 + place) for place, name in enumerate(names)}
        at.append(time.time())
        began = time.perf_counter()
        run.log(step, **values)
        took.append(time.perf_counter() - began)
        time.sleep(float(every))
print(json.dumps({"at": at, "took": took}))
"""


class _Training:
    """Logs beside us; its number is known when it has begun."""

    def __init__(self, store: Path, calls: int) -> None:
        arguments = [str(store), PROJECT, str(EVERY_S), str(calls), *SIZES["b"].names]
        command = [sys.executable, "-c", _WRITER, *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.run = int(self._process.stdout.readline())

    def end(self) -> dict[str, list[float]]:
        """Waits for it: when each step was logged, seconds since 1970, and what that took."""
        told, _ = self._process.communicate()
        found: dict[str, list[float]] = json.loads(told)
        return found


def live(folder: Path, reader: Reader) -> list[bool]:
    """Prints how soon points are seen, and what twenty browsers are to a training; whether the goals are met."""
    store = folder / "live.db"
    write_midflight(store, SIZES["b"])
    print(f"a training in a project of {SIZES['b'].runs} runs, {len(SIZES['b'].names)} values every {EVERY_S} s")
    with served(MIDFLIGHT, store, SIZES["b"]) as (port, _):
        base = f"http://127.0.0.1:{port}"
        goals = [_delay(store, base, reader), *_crowd(store, base, reader)]
    return goals


def _delay(store: Path, base: str, reader: Reader) -> bool:
    training = _Training(store, int(1.5 * SECONDS / EVERY_S))
    answer = reader.ask(
        "live", url=f"{base}/run/{training.run}", charts=MIDFLIGHT.charts, count=READINGS, seconds=SECONDS
    )
    logged = training.end()["at"]
    delays, before = [], answer["seen"][0][0]
    for step, seen in answer["seen"][1:]:
        delays += [seen - logged[known] for known in range(before + 1, step + 1)]
        before = step
    print(f"  {len(delays)} points, 95% of them seen within {_slowest(delays):.2f} s")
    return verdict("median from run.log to the screen", statistics.median(delays), 1.0, "s")


def _slowest(values: list[float]) -> float:
    """The value that 95% do not exceed."""
    return statistics.quantiles(values, n=20)[-1]


def _crowd(store: Path, base: str, reader: Reader) -> list[bool]:
    """Turns without browsers, with them and without again, so that a machine that slows down is seen."""
    turns: dict[str, list[float]] = {"nobody": _Training(store, CALLS).end()["took"]}
    came = reader.ask("come", url=f"{base}/", charts=MIDFLIGHT.charts, pages=BROWSERS)["seconds"]
    training = _Training(store, CALLS)
    turns[f"{BROWSERS} browsers"] = training.end()["took"]
    left: dict[str, Any] = reader.ask("leave", run=training.run, step=CALLS - 1, seconds=60)
    turns["nobody again"] = _Training(store, CALLS).end()["took"]
    for name, took in turns.items():
        print(f"  run.log {statistics.median(took) * 1e6:6.0f} µs, 95% within {_slowest(took) * 1e6:6.0f} µs  {name}")
    drawn = [seconds for seconds in came if seconds is not None]
    print(f"  {len(drawn)} pages were drawn after {min(drawn):.1f} to {max(drawn):.1f} s, all at once on this machine")
    for one in sorted(set(left["wrong"]))[:10]:
        print(f"  {one}")
    alone = statistics.median([*turns["nobody"], *turns["nobody again"]])
    return [
        verdict("browsers that do not follow it", BROWSERS - min(len(drawn), left["following"]), 0, "pages"),
        verdict("errors in them", len(left["wrong"]), 0, "errors"),
        verdict("run.log beside them", statistics.median(turns[f"{BROWSERS} browsers"]) / alone, 1.1, "× alone"),
    ]
