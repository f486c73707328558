"""Starts the trainings, shows how they go, and tells the story when they are done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from midflight.analyse.live import line_of
from midflight.demo.release import release
from midflight.demo.story import tell_story
from midflight.demo.training import HOT, PROJECT, STRATEGIES, warm_up
from midflight.errors import ConfigError, EvaluationError, missing_extra
from midflight.show.lines import duration, report_line
from midflight.show.tables import console
from midflight.store import Store, open_store

BUDGET_S = 225.0
"""Seconds that warm-up and training may take: four minutes, less what the story takes."""

STEPS = 80
MARKER = "midflight.db"


def run_demo(out: Path, seeds: int = 2, steps: int | None = None, serve: bool = False) -> int:
    """Trains, evaluates and shows; 0 if all went well.

    Args:
        out: Folder for store, picture and reports; what an earlier demo left in it is replaced.
        seeds: Runs of each strategy; fewer if they do not fit into four minutes.
        steps: GRPO steps of each run.
        serve: Whether the panel shows it meanwhile, and afterwards until Ctrl-C.

    Raises:
        ConfigError: If the folder holds something that is not the demo's.
        MissingExtraError: If a package that it needs is not installed.
        EvaluationError: If a training process fails.
    """
    _check_packages()
    began = time.time()
    _fresh(out)
    screen = console()
    count = steps or STEPS
    screen.print(
        f"midflight demo: {' and '.join(STRATEGIES)} turns of arithmetic, up to {seeds} seeds each, and {HOT}, which is"
        f" set up to collapse; {count} GRPO steps; everything goes to {out}/",
        markup=False,
    )
    panel = _start_panel(out) if serve else None
    try:
        _train_and_tell(out, seeds, count, began, screen)
        if panel is not None:
            screen.print("the panel stays until Ctrl-C", markup=False)
            panel.wait()
    finally:
        if panel is not None:
            panel.terminate()
            panel.wait()
    return 0


def _train_and_tell(out: Path, seeds: int, count: int, began: float, screen: Console) -> None:
    with _bars(screen) as bars:
        row = bars.add_task("warm-up", total=None)
        warm_up(out, lambda done, total: bars.update(row, completed=done, total=total))
        _train(out, seeds, count, began, screen, bars)
    store = open_store(str(out / MARKER), create=False)
    tell_story(store, out, screen)
    release(store, out, screen)
    screen.print(f"in a browser: midflight serve --store {out}/{MARKER}", markup=False, soft_wrap=True)
    screen.print(f"midflight demo: done in {duration(time.time() - began)}", markup=False)


def _start_panel(out: Path) -> subprocess.Popen[bytes]:
    """The panel on the demo's store; it says itself where it is."""
    words = ["serve", "--store", str(out / MARKER), "--port", "0"]
    return subprocess.Popen([sys.executable, "-m", "midflight", *words])


def _check_packages() -> None:
    try:
        import matplotlib  # noqa: F401
        import torch  # noqa: F401
        import trl  # noqa: F401
    except ImportError as error:
        raise missing_extra("the demo", "demo", error) from None


def _fresh(out: Path) -> None:
    """An empty folder; only a folder that a demo has filled is emptied."""
    if out.exists() and any(out.iterdir()):
        if not (out / MARKER).is_file():
            raise ConfigError(f"--out {out}: the folder holds something else", allowed="a new or empty folder")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    open_store(str(out / MARKER)).close()


def _bars(screen: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )


def _train(out: Path, seeds: int, steps: int, began: float, screen: Console, bars: Progress) -> None:
    """All strategies at once, a process each; their evaluations are shown as they come in."""
    processes = {strategy: _start(out, strategy, seeds, steps, began + BUDGET_S) for strategy in STRATEGIES}
    processes[HOT] = _start(out, HOT, 1, steps, began + BUDGET_S)
    store = open_store(str(out / MARKER))
    shown: set[str] = set()
    rows: dict[int, object] = {}
    told: set[tuple[int, str]] = set()
    try:
        while any(process.poll() is None for process in processes.values()):
            time.sleep(0.5)
            _show_news(store, shown, told, rows, steps, bars)
        _show_news(store, shown, told, rows, steps, bars)
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
                process.wait()
    for strategy, process in processes.items():
        if process.returncode:
            tail = (out / f"{strategy}.log").read_text(errors="replace").strip().splitlines()[-3:]
            raise EvaluationError(
                f"training {strategy} ended with exit code {process.returncode}",
                hint=f"{out}/{strategy}.log ends with: {' | '.join(tail)}",
            )


def _start(out: Path, strategy: str, seeds: int, steps: int, deadline: float) -> subprocess.Popen[bytes]:
    arguments: Sequence[object] = (out, strategy, seeds, steps, deadline)
    with (out / f"{strategy}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "midflight.demo.training", *map(str, arguments)],
            stdout=log,
            stderr=log,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )


def _show_news(
    store: Store, shown: set[str], told: set[tuple[int, str]], rows: dict[int, object], steps: int, bars: Progress
) -> None:
    """Evaluations and findings that have come in since the last time."""
    for run in reversed(store.runs(PROJECT)):
        row = rows.setdefault(run.id, bars.add_task(run.name, total=steps) if run.id not in rows else None)
        heads = [head.step for head in store.heads(run.id)]
        bars.update(row, completed=max(heads, default=0))  # type: ignore[arg-type]
        for report in store.reports(run.id, "sums"):
            if report.id not in shown:
                shown.add(report.id)
                bars.console.print(report_line(report), markup=False, soft_wrap=True)
        for finding in store.findings(run.id):
            if (run.id, finding.kind) not in told:
                told.add((run.id, finding.kind))
                bars.console.print(f"{run.name}: {line_of(finding)}", markup=False, soft_wrap=True)
