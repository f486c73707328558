"""The panel in a real Chromium, beside TensorBoard and trackio; its server alone; and trainings that are looked at.

Data sets, of which a to d are those of research/panel.md: a = 10 runs of 20 series of 1,000 points, b = 100 runs, c = a
series of a million points with a spike at a random step, d = 1,000 runs of 100 points, e = 3 runs of 20 evaluations of
500 items. Seconds are from the navigation to the frame that shows the first chart, or all in sight at 1440 × 900;
profiles are fresh. Peers are measured in turn; one that takes longer than SLOW is measured once.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
import tempfile
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _dashboards import MIDFLIGHT, PEERS, SIZES, SPIKE, Dashboard, Size, memory_mb, served
from _live import live
from _measure import verdict
from _panel_server import evaluations, server
from _reader import Reader, missing, reader

SLOW = 20.0
PATIENCE = 150
GOALS = {"a": (0.7, 1.2), "b": (1.0, 2.0), "c": (0.5, 0.5), "d": (1.0, 1.0)}
"""Seconds to the first chart and to all."""
ZOOMS = {"b": 0.25, "c": 0.1}
DRAGS = ((0.2, 0.4), (0.5, 0.8), (0.1, 0.15), (0.6, 0.7), (0.3, 0.6))
MOST_SELECTED = 100
"""TensorBoard selects no run by itself where there are more."""


@dataclass
class Loads:
    """How a dashboard did on one data set."""

    dashboard: Dashboard
    port: int
    pid: int
    answers: list[dict[str, Any]] = field(default_factory=list)

    def measure(self, reader: Reader, key: str) -> None:
        """Loads its page once more, unless it is known to be slow."""
        if self.answers and not (self.figure("all") or PATIENCE) <= SLOW:
            return
        spike = {"spike": SPIKE / (SIZES[key].points - 1)} if key == "c" else {}
        click = self.dashboard.click if SIZES[key].runs > MOST_SELECTED else ""
        url = f"http://127.0.0.1:{self.port}{self.dashboard.path}"
        self.answers.append(
            reader.ask("load", url=url, charts=self.dashboard.charts, click=click, seconds=PATIENCE, **spike)
        )

    def figure(self, name: str) -> float | None:
        """The median; None if it was not drawn in time. The first load of several warms up."""
        counted = self.answers[1:] or self.answers
        known = [answer[name] for answer in counted if answer[name] is not None]
        return statistics.median(known) if len(known) == len(counted) else None

    def row(self, own: Loads) -> str:
        """A line of the table."""
        first, every, ours = self.figure("first"), self.figure("all"), own.figure("all")
        if first is None or every is None:
            times = f"not drawn in {PATIENCE} s"
        else:
            ratio = f"{every / ours:6.1f} ×" if ours else ""
            times = f"{first:6.2f} / {every:6.2f} s {ratio}"
        spikes = {True: ", spike seen", False: ", SPIKE LOST", None: ""}[self.answers[-1]["spike"]]
        once = ", measured once" if len(self.answers) == 1 else ""
        _, memory = memory_mb(self.pid)
        return f"{times:<28} {self.answers[-1]['charts']} charts, server {memory:.0f} MB{spikes}{once}"


def page(key: str, folder: Path, reader: Reader, peers: tuple[Dashboard, ...], rounds: int) -> list[bool]:
    """Loads one data set in all dashboards, in turn."""
    size = SIZES[key]
    with ExitStack() as stack:
        rows = [_serve(stack, one, folder, key, size) for one in (MIDFLIGHT, *peers)]
        for _ in range(rounds + 1):
            for row in rows:
                row.measure(reader, key)
        own = rows[0]
        for row in rows:
            print(f"  {key}  {row.dashboard.name:<12} {row.row(own)}")
        first, every = GOALS[key]
        goals = [
            verdict(f"{key}: first chart", own.figure("first") or PATIENCE, first, "s"),
            verdict(f"{key}: all charts of the first screen", own.figure("all") or PATIENCE, every, "s"),
            verdict(f"{key}: memory of the server at most", memory_mb(own.pid)[1], 80, "MB"),
            verdict(f"{key}: errors and outside requests", sum(len(one["wrong"]) for one in own.answers), 0, ""),
        ]
        if key == "c":
            goals.append(verdict("c: pictures without the spike", sum(not a["spike"] for a in own.answers), 0, ""))
        if key in ZOOMS:
            goals.append(_zoom(key, own, reader))
        if key == "a":
            goals.append(_code(own, reader))
    return goals


def _serve(stack: ExitStack, dashboard: Dashboard, folder: Path, key: str, size: Size) -> Loads:
    path = folder / f"{key}.db" if dashboard is MIDFLIGHT else folder / f"{key}-{dashboard.name}"
    if dashboard is not MIDFLIGHT:
        dashboard.write(path, size)
    return Loads(dashboard, *stack.enter_context(served(dashboard, path, size)))


def _zoom(key: str, own: Loads, reader: Reader) -> bool:
    url = f"http://127.0.0.1:{own.port}/"
    times = reader.ask("zoom", url=url, charts=MIDFLIGHT.charts, drags=[[0.3, 0.5], *DRAGS])["times"][1:]
    print(f"  {key}  zoom {', '.join(f'{seconds:.3f}' for seconds in times)} s")
    return verdict(f"{key}: zoom, until the last chart shows detail", statistics.median(times), ZOOMS[key], "s")


def _code(own: Loads, reader: Reader) -> bool:
    """What the browser fetches of code for the first page, and for that of a run."""
    base = f"http://127.0.0.1:{own.port}"
    run = reader.ask("load", url=f"{base}/run/1", charts=MIDFLIGHT.charts)["code"]
    sizes = [sum(_zipped(url) for url in code) / 1000 for code in (own.answers[0]["code"], run)]
    print(f"  code of the first page {sizes[0]:.1f} kB, of a run's page {sizes[1]:.1f} kB (gzip)")
    return verdict("page code", max(sizes), 60, "kB gzip")


def _zipped(url: str) -> int:
    with urllib.request.urlopen(url) as answer:
        return len(gzip.compress(answer.read(), 9))


def installed(peers: tuple[Dashboard, ...]) -> tuple[Dashboard, ...]:
    """Those peers that are here; says which are not."""
    from importlib.util import find_spec

    here = tuple(one for one in peers if find_spec(one.name.lower()) is not None)
    for one in set(peers) - set(here):
        print(f"  {one.name} is not installed: not measured")
    return here


def pages(folder: Path, keys: str, rounds: int) -> list[bool]:
    """All that is measured in the browser."""
    print(f"pages in Chromium, median of {rounds} loads: first chart / all charts, × = peer / midflight")
    peers = installed(PEERS)
    with reader() as asked:
        return [met for key in keys for met in page(key, folder, asked, peers, rounds)] + live(folder, asked)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="loads of each dashboard, after one to warm up")
    parser.add_argument("--only", default="abcd", help="data sets that are loaded in the browser")
    arguments = parser.parse_args()
    goals: list[bool] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {key: folder / f"{key}.db" for key in (*SIZES, "e")}
        for key, size in SIZES.items():
            MIDFLIGHT.write(paths[key], size)
        evaluations(paths["e"])
        goals += server(paths)
        if lacking := missing():
            print(f"the pages are not measured, missing: {lacking}")
        else:
            goals += pages(folder, arguments.only, arguments.rounds)
    print(f"{sum(goals)} of {len(goals)} goals met")
    return 0 if all(goals) else 1


if __name__ == "__main__":
    sys.exit(main())
