"""`midflight watch`: every checkpoint that a training script writes, as it is finished."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import StoreOption
from midflight.errors import ConfigError, shorten

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_S = 30 * 86_400
"""Seconds between two looks, or without a new checkpoint, at most: a month."""


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
    from midflight.cli._options import checked_seed, load_tasks
    from midflight.run import Run
    from midflight.show.tables import console
    from midflight.triggers import CheckpointWatcher

    for name, value in (("--interval", interval), ("--idle", idle)):
        if value is not None and not 0 < value <= LONGEST_S:
            raise ConfigError(name, got=value, allowed=f"seconds above 0, up to {LONGEST_S:,}")
    checked_seed(seed)
    tasks = load_tasks(task, limit, seed)
    watcher = CheckpointWatcher(folder)
    told = _Told(console())
    options = {key: value for key, value in (("dtype", dtype), ("device", device)) if value is not None}
    with Run(project, run or folder.absolute().name, store=store, resume="attach") as record:
        names = ", ".join(one.name for one in tasks)
        told.once(f"watching {folder} every {interval:g} s for {names}; run {record.name} in {record.store.url}")
        if not folder.is_dir():
            told.once(f"{folder} does not exist yet; waiting for it")
        evaluator = CheckpointEvaluator(tasks, record, seed, options, told.console)
        quiet_since = time.monotonic()
        watcher.poll()  # a first look: what is unchanged at the second one is finished
        while True:
            before = watcher.waiting
            time.sleep(min(interval, 1.0) if once else interval)
            for checkpoint in watcher.poll():
                evaluator.evaluate(checkpoint)
                quiet_since = time.monotonic()
            told.skipped(folder)
            ends = once or (idle is not None and time.monotonic() - quiet_since > idle)
            for path, reason in watcher.waiting.items():
                if ends or before.get(path) == reason:  # it is not just being written
                    told.once(f"{path.name}: not finished: {reason}")
            if ends:
                break
    return 1 if evaluator.failed else 0


class _Told:
    """Says everything once."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._said: set[str] = set()

    def once(self, text: str) -> None:
        """Prints a line, unless it was printed before."""
        if text not in self._said:
            self._said.add(text)
            self.console.print(f"midflight: {shorten(text, 500)}", markup=False, soft_wrap=True)

    def skipped(self, folder: Path) -> None:
        """Names the folders that are taken for no checkpoints, and why."""
        from midflight.triggers.checkpoints import step_of

        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if not path.is_dir() or path.name.startswith((".", "tmp-")):
                continue
            try:
                step_of(path)
            except ConfigError as error:
                self.once(f"{path.name}: skipped: {error}")
