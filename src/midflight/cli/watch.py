"""`midflight watch`: every checkpoint that a training script writes, as it is finished."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import BaselineOption, ClaimOption, MarginOption, StoreOption, path_argument, path_option
from midflight.errors import ConfigError, shorten

if TYPE_CHECKING:
    from rich.console import Console

    from midflight.cli._checkpoints import CheckpointEvaluator
    from midflight.engines.base import BaseEngine
    from midflight.run import Run
    from midflight.tasks import Task
    from midflight.triggers import Checkpoint, CheckpointWatcher

MOST_WORKERS = 1_000
LONGEST_S = 30 * 86_400
"""Seconds between two looks, or without a new checkpoint, at most: a month."""


def watch(
    folder: Annotated[Path, path_argument(help="Folder that checkpoints are written to.")],
    task: Annotated[
        list[str], typer.Option("--task", "-t", help="Task name, name@local-file, or task.toml; repeat it.")
    ],
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Items of each task at most.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and bootstrap.")] = 0,
    then: Annotated[Path | None, path_option("--then", help="Workflow to carry out with each checkpoint.")] = None,
    stop_file: Annotated[
        Path | None, path_option("--stop-file", help="File to write once training should end.")
    ] = None,
    store: StoreOption = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Run that the results belong to. Default: the folder.")
    ] = None,
    project: Annotated[str, typer.Option("--project", help="Project of the run.")] = "default",
    baseline: BaselineOption = None,
    margin: MarginOption = None,
    claim: ClaimOption = "not_worse",
    interval: Annotated[float, typer.Option(help="Seconds between two looks.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Evaluate what is finished now, and end.")] = False,
    idle: Annotated[float | None, typer.Option(help="End after so many seconds without a new checkpoint.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, float16 or auto.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cpu, …")] = None,
    workers: Annotated[int, typer.Option(help="Processes, or Ray actors, that evaluate.", min=1, max=MOST_WORKERS)] = 1,
    dispatch: Annotated[str, typer.Option(help="Where they run: process or ray.")] = "process",
    dead_after: Annotated[float, typer.Option(help="Seconds until what a silent watcher began is taken over.")] = 60.0,
) -> int:
    """Evaluate each finished checkpoint once, in step order; half-written ones are left alone until complete.

    Several of these commands may watch one folder with one store, also --workers of this one: none does what another
    one does.
    """
    from midflight.cli._quiet import quiet_libraries

    quiet_libraries()
    from midflight.cli._checkpoints import CheckpointEvaluator
    from midflight.cli._options import checked_seed, load_tasks, rules_for
    from midflight.run import Run
    from midflight.show.tables import console
    from midflight.triggers import CheckpointWatcher
    from midflight.triggers.keeping import tidy

    _check(interval, idle, dead_after, dispatch)
    checked_seed(seed)
    told = _Told(console())
    _look_at(folder, once, told)
    tasks = load_tasks(task, limit, seed)
    rules = rules_for(tasks, baseline, margin, claim, seed)
    watcher = CheckpointWatcher(folder)
    tidy(folder)
    with Run(project, run or folder.absolute().name, store=store, resume="attach") as record:
        told.hello(folder, interval, tasks, record)
        after = _after(record, tasks, told, stop_file, _workflow(then, record, told, dead_after) if then else None)
        load = _loader(dtype, device, workers if dispatch == "ray" else 0)
        evaluator = CheckpointEvaluator(tasks, record, seed, load, told.console, dead_after, rules, after)
        with _others(workers - 1 if dispatch == "process" else 0) as others:
            _follow(watcher, evaluator, told, interval, once, idle)
        return 1 if evaluator.failed or any(other.returncode for other in others) else 0


def _check(interval: float, idle: float | None, dead_after: float, dispatch: str) -> None:
    for name, value in (("--interval", interval), ("--idle", idle), ("--dead-after", dead_after)):
        if value is not None and not 0 < value <= LONGEST_S:
            raise ConfigError(name, got=value, allowed=f"seconds above 0, up to {LONGEST_S:,}")
    if dispatch not in ("process", "ray"):
        raise ConfigError("--dispatch", got=dispatch, allowed="process or ray")


def _look_at(folder: Path, once: bool, told: _Told) -> None:
    """Whether the folder can be watched; one that training has yet to make is waited for, and said to be.

    Raises:
        ConfigError: If it is a file, or is not there and nobody waits.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError("folder of checkpoints", got=str(folder), allowed="a folder", hint="it is a file")
    if not folder.exists():
        if once:
            raise ConfigError(f"no folder {shorten(str(folder))}", hint="without --once it is waited for")
        told.once(f"{folder} does not exist yet; waiting for it")


def _follow(
    watcher: CheckpointWatcher,
    evaluator: CheckpointEvaluator,
    told: _Told,
    interval: float,
    once: bool,
    idle: float | None,
) -> None:
    """Evaluates what is finished, until there is no more to wait for."""
    quiet_since = time.monotonic()
    left: list[Checkpoint] = []  # another process is at them; if it dies, they are ours
    watcher.poll()  # a first look: what is unchanged at the second one is finished
    while True:
        before = watcher.waiting
        time.sleep(min(interval, 1.0) if once else interval)
        for checkpoint in [*left, *watcher.poll()]:
            taken = evaluator.evaluate(checkpoint)
            left = [other for other in left if other is not checkpoint] + ([] if taken else [checkpoint])
            quiet_since = time.monotonic() if taken else quiet_since
        told.skipped(watcher.folder)
        ends = not left and (once or (idle is not None and time.monotonic() - quiet_since > idle))
        for path, reason in watcher.waiting.items():
            if ends or before.get(path) == reason:  # it is not just being written
                told.once(f"{path.name}: not finished: {reason}")
        if ends:
            return


def _after(
    record: Run, tasks: Sequence[Task], told: _Told, stop_file: Path | None, workflow: Callable[[Path], bool] | None
) -> Callable[[Path], bool]:
    """What is done with each checkpoint that was evaluated: says whether training should end, then the workflow."""
    from midflight.analyse.early_stop import advice_of_findings, advice_of_trends
    from midflight.schema import to_json
    from midflight.triggers.checkpoints import step_of

    def after(checkpoint: Path) -> bool:
        store, info, step, names = record.store, record.info, step_of(checkpoint), [task.name for task in tasks]
        advice = advice_of_findings(store, info, store.findings(info.id), step, names)
        advice = advice or advice_of_trends(store, info, step, names)
        if advice is not None:
            told.once(str(advice))
            if stop_file is not None and not stop_file.exists():
                draft = stop_file.with_name(f".{stop_file.name}.{os.getpid()}")
                try:
                    draft.write_text(to_json(dataclasses.asdict(advice), indent=2) + "\n", encoding="utf-8")
                    draft.replace(stop_file)
                except OSError as error:
                    told.once(f"--stop-file {stop_file}: cannot be written: {error.strerror or error}")
        return workflow is None or workflow(checkpoint)

    return after


def _workflow(path: Path, record: Run, told: _Told, dead_s: float) -> Callable[[Path], bool]:
    """Carries out a workflow with a checkpoint; False if it failed. One that has ended is left as it ended."""
    from midflight.gate.workflow import WorkflowExecutor

    executor = WorkflowExecutor(path, record.store, tell=told.line, dead_s=dead_s)
    if not executor.workflow.judges and any(step.when != "always" for step in executor.workflow.steps):
        raise ConfigError(f"--then {path}: nothing in it makes a verdict", hint='give it a step of kind "gate"')

    def carry_out(checkpoint: Path) -> bool:
        execution = executor.run(checkpoint, project=record.project, run=record.name, retry=False)
        return execution.status == "done" and all(step.status != "failed" for step in execution.steps)

    return carry_out


def _loader(dtype: str | None, device: str | None, actors: int) -> Callable[[Path, str], BaseEngine]:
    """Makes an engine of a checkpoint: in this process, or copies of it on Ray actors."""
    options = {key: value for key, value in (("dtype", dtype), ("device", device)) if value is not None}

    def load(path: Path, name: str) -> BaseEngine:
        from midflight.engines import HF

        engine = HF.load(path, name_or_path=name, **options)
        if not actors:
            return engine
        from midflight.engines import Ray

        return Ray(engine, workers=actors)

    return load


@contextmanager
def _others(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many more processes of this command, which share the work by their leases."""
    words = sys.argv[1:]
    for index, word in enumerate(words):
        if word.startswith("--workers"):
            del words[index : index + (1 if "=" in word else 2)]
            break
    others = [subprocess.Popen([sys.executable, "-m", "midflight", *words]) for _ in range(count)]
    try:
        yield others
        for other in others:
            other.wait()
    finally:
        for other in others:
            if other.poll() is None:
                other.terminate()
                other.wait()


class _Told:
    """Says everything once."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._said: set[str] = set()

    def hello(self, folder: Path, interval: float, tasks: Sequence[Task], record: Run) -> None:
        """Says what is watched."""
        where = f"run {record.name} in {record.store.url}"
        self.once(f"watching {folder} every {interval:g} s for {', '.join(task.name for task in tasks)}; {where}")

    def once(self, text: str) -> None:
        """Prints a line, unless it was printed before."""
        if text not in self._said:
            self._said.add(text)
            self.line(text)

    def line(self, text: str) -> None:
        """Prints a line."""
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
