"""`midflight flips`: what a run learned and forgot from checkpoint to checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, path_option, print_json


def flips(
    run: Annotated[str, typer.Argument(help="Number, name or project/name of the run.")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="The task. Default: the run's only one.")] = None,
    metric: Annotated[str | None, typer.Option("--metric", "-m", help="The metric. Default: the task's first.")] = None,
    out: Annotated[Path | None, path_option("--out", "-o", help="Draw it: .png, .svg or .pdf.")] = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Show how many items a run learned and forgot between its checkpoints: equal means can hide many."""
    from midflight.analyse.evidence import find_run
    from midflight.analyse.flips import flip_curve
    from midflight.catalog import unknown
    from midflight.cli._options import existing_store
    from midflight.errors import ConfigError, shorten
    from midflight.show.flips import draw_flips, flips_table
    from midflight.show.tables import console

    opened = existing_store(store)
    found = find_run(opened, run)
    reports = opened.reports(found.id, task)
    tasks = sorted({report.task for report in opened.reports(found.id)})
    if task is not None and not reports:
        raise unknown("evaluated tasks of this run", task, tasks)
    if task is None and len(tasks) != 1:
        if not tasks:
            raise ConfigError(f"run {found.name!r} has no finished evaluation", hint=f"midflight show {found.name}")
        raise ConfigError(f"run {found.name!r} has {len(tasks)} tasks", hint=f"name one: --task {' | '.join(tasks)}")
    last = reports[-1]
    alike = {r.progress.step: r for r in reports if (r.task_fingerprint, r.seed) == (last.task_fingerprint, last.seed)}
    metric = metric or last.judging[0].metric
    if metric not in {estimate.metric for estimate in last.estimates}:
        raise unknown(f"metrics of {last.task}", metric, sorted({estimate.metric for estimate in last.estimates}))
    points = flip_curve([alike[step] for step in sorted(alike)], opened, metric)
    title = f"{found.name} · {shorten(last.task)}: {shorten(metric)}"
    if out is not None:
        draw_flips(points, out, title)
    if json_:
        print_json([dataclasses.asdict(point) for point in points])
    else:
        console().print(flips_table(points, title))
    return 0
