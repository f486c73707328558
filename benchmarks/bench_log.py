"""`run.log` of ten values: what it costs the training thread, and how many points become durable a second.

Peers in the same run: trackio's `log`, and TensorBoard's `EventFileWriter` with ten values an event.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

from _measure import alternate, verdict

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

KEYS = [f"metric{i}" for i in range(10)]
ROWS = [{key: random.random() for key in KEYS} for _ in range(1000)]


def measure(
    calls: int, log: Callable[[int, dict[str, float]], None], finish: Callable[[], None]
) -> tuple[float, float]:
    """Seconds a call on the caller's thread, and durable points a second."""
    began = time.perf_counter()
    for step in range(calls):
        log(step, ROWS[step % 1000])
    called = time.perf_counter() - began
    finish()
    return called / calls, calls * 10 / (time.perf_counter() - began)


def midflight(calls: int) -> tuple[float, float]:
    from midflight.run import Run

    folder = tempfile.mkdtemp()
    run = Run("p", "r", store=f"{folder}/s.db", resume="never")
    found = measure(calls, lambda step, row: run.log(step, **row), run.flush)
    run.finish()
    assert len(run.store.read_points(run.id, KEYS[0]).steps) == calls
    shutil.rmtree(folder)
    return found


def trackio(calls: int) -> tuple[float, float]:
    import contextlib
    import io

    import trackio

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trackio.init(project=f"p{random.getrandbits(60)}", name="r", embed=False)
        found = measure(calls, lambda step, row: trackio.log(row, step=step), trackio.finish)
    return found


def tensorboard(calls: int) -> tuple[float, float]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder = tempfile.mkdtemp()
    writer = EventFileWriter(folder)

    def log(step: int, row: dict[str, float]) -> None:
        values = [Summary.Value(tag=key, simple_value=value) for key, value in row.items()]
        writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=values)))

    found = measure(calls, log, writer.close)
    shutil.rmtree(folder)
    return found


def main() -> int:
    os.environ["TRACKIO_DIR"] = tempfile.mkdtemp()
    sizes = {"midflight": (midflight, 100_000), "trackio": (trackio, 3_000), "tensorboard": (tensorboard, 5_000)}
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in sizes}

    def round_of(name: str) -> float:
        function, calls = sizes[name]
        figures[name].append(function(calls))
        return figures[name][-1][0]

    calls = alternate({name: lambda n=name: round_of(n) for name in sizes}, rounds=5)
    rates = {name: sorted(rate for _, rate in found[1:])[len(found[1:]) // 2] for name, found in figures.items()}
    # a training step takes longer than a call: between two of them the writer has the interpreter to itself
    print("run.log, ten values")
    for name in sizes:
        print(f"  {calls[name] * 1e6:8.2f} µs a call, {rates[name] / 1e6:7.3f} M durable points a second  {name}")
    for peer in ("trackio", "tensorboard"):
        time_ratio, rate_ratio = calls["midflight"] / calls[peer], rates["midflight"] / rates[peer]
        print(f"  {time_ratio:8.3f} of the time and {rate_ratio:.1f} × the rate of {peer}")
    goals = [
        verdict("a call on the caller's thread", calls["midflight"] * 1e6, 5, "µs"),
        verdict("durable points a second", rates["midflight"], 1e6, "points/s", at_most=False),
    ]
    return 0 if all(goals) else 1


if __name__ == "__main__":
    sys.exit(main())
