"""What a person means by `RUN`, `PROJECT/RUN` and `RUN@STEP`."""

from __future__ import annotations

from collections.abc import Sequence

from midflight.errors import ConfigError, shorten
from midflight.records import EvalReport
from midflight.store.base import RunInfo, Store


def find_run(store: Store, wanted: str) -> RunInfo:
    """The run that a person means: its number, its name, or project/name; the newest of that name.

    Raises:
        ConfigError: If there is none; says which there are.
    """
    runs = store.runs()
    found = _named(runs, wanted)
    if not found:
        names = ", ".join(dict.fromkeys(run.name for run in runs[:10])) or "none yet"
        raise ConfigError(f"no run {shorten(wanted)!r} in {store.url}", hint=f"there are: {names}")
    return found[0]


def find_reports(store: Store, wanted: str, task: str) -> tuple[RunInfo, list[EvalReport]]:
    """The run that a person means, and its evaluations of a task, by step.

    Args:
        store: Where to look.
        wanted: A run as `find_run` takes it, and, behind an ``@``, a step if only that one is meant.
        task: The task's name.

    Raises:
        ConfigError: If there is no such run, or no such evaluation; says which there are.
    """
    name, separator, text = wanted.rpartition("@")
    step = int(text) if separator and text.isdecimal() and len(text) < 20 else None
    if step is None or _named(store.runs(), wanted):
        name, step = wanted, None
    run = find_run(store, name)
    reports = store.reports(run.id, task)
    if not reports:
        tasks = ", ".join(sorted({report.task for report in store.reports(run.id)})) or "nothing"
        raise ConfigError(f"run {shorten(run.name)!r} has no evaluation of {shorten(task)!r}", hint=f"it has {tasks}")
    found = [report for report in reports if step in (None, report.progress.step)]
    if not found:
        steps = ", ".join(dict.fromkeys(str(report.progress.step) for report in reports))
        raise ConfigError(f"run {shorten(run.name)!r}, {task}: step", got=step, allowed=shorten(steps))
    return run, found


def _named(runs: Sequence[RunInfo], wanted: str) -> list[RunInfo]:
    if wanted.isdecimal() and len(wanted) < 20:
        return [run for run in runs if run.id == int(wanted)]
    return [run for run in runs if wanted in (run.name, f"{run.project}/{run.name}")]
