"""The panel and its peers on the same curves: TensorBoard and trackio, written the fastest way that each documents."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from midflight.store import open_store
from midflight.store.base import Block

SPIKE = random.Random(0).randrange(1_000_000)
"""The one step at which the series of a million points jumps."""
SPIKE_HEIGHT = 100.0
PROJECT = "bench"


@dataclass(frozen=True)
class Size:
    """So many runs of so many series of so many points."""

    runs: int
    keys: int
    points: int

    @property
    def names(self) -> list[str]:
        """Of the series."""
        return [f"train/metric{key:02}" for key in range(self.keys)]

    def curves(self) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
        """Each run's name and its values, series × steps: random walks."""
        rng = np.random.default_rng(0)
        for number in range(self.runs):
            values = np.cumsum(rng.normal(size=(self.keys, self.points)), axis=1) / 30
            if self.points > SPIKE:
                values[:, SPIKE] = values.max() + SPIKE_HEIGHT
            yield f"run-{number:04}", values


SIZES = {"a": Size(10, 20, 1000), "b": Size(100, 20, 1000), "c": Size(1, 1, 1_000_000), "d": Size(1000, 1, 100)}
"""Those of research/panel.md."""


@dataclass(frozen=True)
class Dashboard:
    """One of those that are compared."""

    name: str
    write: Callable[[Path, Size], None]
    command: Callable[[Path, int], list[str]]
    path: str
    is_ready: Callable[[int, Size], bool]
    charts: str
    """CSS selector of a chart's host."""
    click: str = ""
    """What has to be clicked before anything is drawn where there are more runs than it selects by itself."""


# -- the panel -------------------------------------------------------------------------------------------------------


def write_midflight(path: Path, size: Size) -> None:
    """A store of these runs."""
    store, steps = open_store(str(path)), np.arange(size.points)
    for name, values in size.curves():
        run = store.create_run(PROJECT, name, owner="nobody:1:1")
        store.append_points(run.id, 1, [Block(tuple(size.names), steps, run.created + steps * 0.5, values)])
        store.finish_run(run.id, "finished")


# -- TensorBoard -----------------------------------------------------------------------------------------------------


def write_tensorboard(path: Path, size: Size) -> None:
    """An event file a run, all series of a step in one event."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    began = time.time()
    for name, values in size.curves():
        writer = EventFileWriter(str(path / name))
        for step, row in enumerate(values.T.tolist()):
            told = [Summary.Value(tag=key, simple_value=value) for key, value in zip(size.names, row, strict=True)]
            writer.add_event(Event(step=step, wall_time=began + step * 0.5, summary=Summary(value=told)))
        writer.close()


def _tensorboard_has_read(port: int, size: Size) -> bool:
    """Whether it knows the last step of the last run: it reads the files after it has begun to answer."""
    base = f"http://127.0.0.1:{port}/data/plugin/scalars"
    with urllib.request.urlopen(f"{base}/tags") as answer:
        if len(json.load(answer)) < size.runs:
            return False
    query = urllib.parse.urlencode({"tag": size.names[-1], "run": f"run-{size.runs - 1:04}"})
    with urllib.request.urlopen(f"{base}/scalars?{query}") as answer:
        return bool(json.load(answer)[-1][1] == size.points - 1)


# -- trackio ---------------------------------------------------------------------------------------------------------

_WRITE_TRACKIO = """
import sys
from datetime import datetime, timezone
from pathlib import Path
sys.path.insert(0, {here!r})
from _dashboards import PROJECT, Size
from trackio.sqlite_storage import SQLiteStorage
size = Size(*map(int, sys.argv[1:]))
for name, values in size.curves():
    rows = [dict(zip(size.names, row)) for row in values.T.tolist()]
    SQLiteStorage.bulk_log(PROJECT, name, rows, steps=list(range(size.points)))
"""
_SHOW_TRACKIO = "import sys, trackio; trackio.show(sys.argv[1], open_browser=False, server_port=int(sys.argv[2]))"


def _in_trackio(path: Path) -> dict[str, str]:
    return {**os.environ, "TRACKIO_DIR": str(path), "GRADIO_ANALYTICS_ENABLED": "False"}


def write_trackio(path: Path, size: Size) -> None:
    """Its SQLite file, through `bulk_log`; in a process of its own, since the folder is read when it is imported."""
    code = _WRITE_TRACKIO.format(here=str(Path(__file__).parent))
    command = [sys.executable, "-c", code, *map(str, (size.runs, size.keys, size.points))]
    subprocess.run(command, check=True, env=_in_trackio(path), capture_output=True)


# -- all of them -----------------------------------------------------------------------------------------------------


def _python(*words: object) -> list[str]:
    return [sys.executable, *map(str, words)]


MIDFLIGHT = Dashboard(
    "midflight",
    write_midflight,
    lambda path, port: _python("-m", "midflight", "serve", "--store", path, "--port", port),
    "/",
    lambda port, size: True,
    ".curve .plot",
)
TENSORBOARD = Dashboard(
    "TensorBoard",
    write_tensorboard,
    # it would read its files anew every five seconds, in the time of its peers
    lambda path, port: _python("-m", "tensorboard.main", "--logdir", path, "--port", port, "--reload_interval", 0),
    "/",
    _tensorboard_has_read,
    ".series-view",
    "tb-data-table-header-cell mat-checkbox input",
)
TRACKIO = Dashboard(
    "trackio",
    write_trackio,
    lambda path, port: _python("-c", _SHOW_TRACKIO, PROJECT, port),
    f"/?project={PROJECT}",
    lambda port, size: True,
    ".plot-chart-wrap",
)
PEERS = (TENSORBOARD, TRACKIO)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def served(dashboard: Dashboard, path: Path, size: Size) -> Iterator[tuple[int, int]]:
    """Its server on what was written; port and process. It has read all that there is."""
    port = free_port()
    environment = _in_trackio(path) if dashboard is TRACKIO else None
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(dashboard.command(path, port), stdout=quiet, stderr=quiet, env=environment)
    try:
        _wait_until(lambda: _answers(port) and dashboard.is_ready(port, size), process, dashboard.name)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 400
    except OSError:
        return False
    finally:
        connection.close()


def _wait_until(done: Callable[[], bool], process: subprocess.Popen[bytes], name: str, most: float = 180.0) -> None:
    end = time.monotonic() + most
    while not _holds(done):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the server of {name} ended with {process.poll()} or did not read its data in {most} s")
        time.sleep(0.1)


def _holds(done: Callable[[], bool]) -> bool:
    try:
        return done()
    except (OSError, ValueError, LookupError):  # it does not know its data yet
        return False


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory of a process and its children, now, and at most for each of them, in MB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    figures = [_of_status(pid), *(memory_mb(int(child)) for child in children)]
    return sum(now for now, _ in figures), sum(most for _, most in figures)


def _of_status(pid: int) -> tuple[float, float]:
    text = Path(f"/proc/{pid}/status").read_text()
    now, most = (int(re.search(rf"{name}:\s+(\d+)", text)[1]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[index]
    return now, most
