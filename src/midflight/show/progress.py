"""How far an evaluation is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from midflight.errors import shorten
from midflight.show.lines import duration, number

LINE_S = 10.0


@contextmanager
def watching(console: Console, quiet: bool = False) -> Iterator[Callable[[str, int, int, int], None]]:
    """A function to be told of progress: task, requests answered, requests so far, tokens.

    Args:
        console: Where to show it; standard error, so that standard output stays clean.
        quiet: Whether to show nothing.
    """
    if quiet:
        yield lambda task, done, total, tokens: None
    elif console.is_terminal:
        with _bars(console) as bars:
            rows: dict[str, object] = {}

            def tell(task: str, done: int, total: int, tokens: int) -> None:
                row = rows.setdefault(task, bars.add_task(shorten(task, 40), total=total) if task not in rows else None)
                bars.update(row, completed=done, total=total)  # type: ignore[arg-type]

            yield tell
    else:
        began = told = time.monotonic()

        def line(task: str, done: int, total: int, tokens: int) -> None:
            nonlocal told
            if time.monotonic() - told > LINE_S:
                told = time.monotonic()
                pace = f"{duration(told - began)}, {number(tokens)} tokens"
                console.print(
                    f"midflight: {shorten(task)}: {done} of {total} requests, {pace}", markup=False, soft_wrap=True
                )

        yield line


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


@contextmanager
def waiting(unfinished: int, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A function to be told how many evaluations still run; a bar on a terminal, a line at the beginning in a log.

    Args:
        unfinished: How many run now.
        quiet: Whether to show nothing.
    """
    screen = Console(stderr=True)
    if quiet or not unfinished:
        yield lambda left: None
    elif screen.is_terminal:
        with _bars(screen) as bars:
            row = bars.add_task("evaluations", total=unfinished)
            yield lambda left: bars.update(row, completed=unfinished - left)
    else:
        screen.print(f"midflight: {unfinished} evaluations still run", markup=False)
        yield lambda left: None
