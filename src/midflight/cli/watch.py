"""`midflight watch`: every checkpoint that a training script writes, as it is finished."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import StoreOption


def watch(
    folder: Annotated[Path, typer.Argument(help="Folder that checkpoints are written to.")],
    task: Annotated[
        list[str], typer.Option("--task", "-t", help="Task name, name@local-file, or task.toml; repeat it.")
    ],
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Items of each task at most.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and bootstrap.")] = 0,
    store: StoreOption = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Run that the results belong to. Default: the folder.")
    ] = None,
    project: Annotated[str, typer.Option("--project", help="Project of the run.")] = "default",
    interval: Annotated[float, typer.Option(help="Seconds between two looks.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Evaluate what is finished now, and end.")] = False,
    idle: Annotated[float | None, typer.Option(help="End after so many seconds without a new checkpoint.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, float16 or auto.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cpu, …")] = None,
) -> int:
    """Evaluate each finished checkpoint once, in step order; half-written ones are left alone until complete."""
    from midflight.cli._quiet import quiet_libraries

    quiet_libraries()
    from midflight.cli._checkpoints import CheckpointEvaluator
    from midflight.errors import ConfigError
    from midflight.run import Run
    from midflight.show.tables import console
    from midflight.tasks import load_task
    from midflight.triggers import CheckpointWatcher

    for name, value in (("--interval", interval), ("--idle", idle)):
        if value is not None and value <= 0:
            raise ConfigError(name, got=value, allowed="a number of seconds above 0")
    tasks = [load_task(name, limit=limit, seed=seed) for name in task]
    watcher = CheckpointWatcher(folder)
    out = console()
    options = {key: value for key, value in (("dtype", dtype), ("device", device)) if value is not None}
    with Run(project, run or folder.absolute().name, store=store, resume="attach") as record:
        evaluator = CheckpointEvaluator(tasks, record, seed, options, out)
        quiet_since = time.monotonic()
        watcher.poll()  # a first look: what is unchanged at the second one is finished
        while True:
            time.sleep(min(interval, 1.0) if once else interval)
            for checkpoint in watcher.poll():
                evaluator.evaluate(checkpoint)
                quiet_since = time.monotonic()
            if once or (idle is not None and time.monotonic() - quiet_since > idle):
                break
        for path, reason in watcher.waiting.items():
            out.print(f"midflight: {path.name}: not finished: {reason}", markup=False)
    return 1 if evaluator.failed else 0
