"""`midflight show`: one run, its slices, or the items of an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, checked_step, print_json
from midflight.errors import ConfigError, one_line, shorten
from midflight.records import EvalReport

if TYPE_CHECKING:
    from rich.console import Console

    from midflight.show.state import RunView
    from midflight.store import Store


def show(
    run: Annotated[str, typer.Argument(help="Number, name or project/name of the run.")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task.")] = None,
    step: Annotated[
        int | None, typer.Option("--step", help="Only this step. Default of --slices, --items: last.")
    ] = None,
    slices: Annotated[bool, typer.Option("--slices", help="Show an evaluation slice by slice.")] = False,
    items: Annotated[bool, typer.Option("--items", help="Show an evaluation item by item.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="With --items: only those not ok, or scored below 1.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="With --items: all items, and all of their texts.")] = False,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Show a run: the curve of each task as a table, and the newest value of each training series."""
    from midflight.analyse.evidence import find_run
    from midflight.cli._options import existing_store
    from midflight.show.state import view_run
    from midflight.show.tables import console

    if (failed or full) and not items:
        raise ConfigError("--failed and --full", allowed="beside --items")
    if slices and items:
        raise ConfigError("--slices and --items", allowed="one of them")
    opened = existing_store(store)
    view = view_run(opened, find_run(opened, run))
    view = dataclasses.replace(view, reports=_chosen(view.reports, task, checked_step(step)))
    chosen = _last_of_each(view.reports) if (slices or items) and step is None else view.reports
    if items:
        _show_items(opened, chosen, failed, full, None if json_ else console())
    elif json_:
        print_json([dataclasses.asdict(report) for report in chosen])
    elif slices:
        _show_slices(chosen, console())
    else:
        _show_run(opened, view, console(), whole=task is None and step is None)
    return 0


def _chosen(reports: Sequence[EvalReport], task: str | None, step: int | None) -> list[EvalReport]:
    """The evaluations of a task and a step."""
    from midflight.catalog import unknown

    tasks = sorted({report.task for report in reports})
    if task is not None and task not in tasks:
        raise unknown("evaluated tasks of this run", task, tasks)
    found = [report for report in reports if task in (None, report.task)]
    steps = sorted({report.progress.step for report in found})
    if step is not None and step not in steps:
        raise ConfigError("--step", got=step, allowed=", ".join(map(str, steps)) or "none: nothing was evaluated")
    return [report for report in found if step in (None, report.progress.step)]


def _last_of_each(reports: Sequence[EvalReport]) -> list[EvalReport]:
    """The last evaluation of each task and each of its variants."""
    from midflight.analyse.variants import newest_of_each

    return [report for report, _ in newest_of_each(reports)]


def _show_run(store: Store, view: RunView, out: Console, whole: bool) -> None:
    from midflight.show.state import unfinished_line
    from midflight.show.tables import curve_table, decisions, heads_table, reasons, with_attempt

    info = view.info
    out.print(f"{info.project}/{info.name} (run {info.id}): {with_attempt(view)}", markup=False)
    if info.damage:
        out.print(one_line(info.damage), style="red", markup=False, soft_wrap=True)
    if info.lost_points:
        out.print(f"{info.lost_points:,} points were lost while the store could not be written to", markup=False)
    for task in dict.fromkeys(report.task for report in view.reports):
        own = [report for report in view.reports if report.task == task]
        out.print(curve_table(own))
        for line in decisions(own):
            out.print(line, markup=False, soft_wrap=True)
        for reason in reasons(own):
            out.print(reason, style="red", markup=False, soft_wrap=True)
    if not whole:
        return
    for evaluation in view.unfinished:
        out.print(unfinished_line(evaluation), markup=False)
    if view.heads:
        # the head counts what was written, also what a later attempt superseded
        found = store.read_overviews([info.id], [head.key for head in view.heads], buckets=1)
        counts = {key: int(n) for (_, key), n in zip(found.series, found.num_points, strict=True)}
        out.print(heads_table(view.heads, counts))
    if not (view.reports or view.heads or view.unfinished):
        out.print("nothing was logged or evaluated yet")


def _show_slices(reports: Sequence[EvalReport], out: Console) -> None:
    from midflight.analyse.variants import row_labels
    from midflight.show.tables import slices_table

    for report in reports:
        label = row_labels([one for one in reports if one.task == report.task])[report.id]
        out.print(slices_table(report, label))
    if not any(e.slice for report in reports for e in report.estimates):
        out.print("no slices: the task names none")


def _show_items(store: Store, reports: Sequence[EvalReport], failed: bool, full: bool, out: Console | None) -> None:
    """On the screen, or as JSON if there is none."""
    from midflight.analyse.variants import row_labels
    from midflight.show.items import print_items, results_of

    found = []
    for report in reports:
        results = [result for result in results_of(store, report) if result.failed or not failed]
        if out is None:
            where = {"evaluation": report.id, "task": report.task, "step": report.progress.step}
            found.append({**where, "items": [result.plain() for result in results]})
            continue
        label = row_labels([one for one in reports if one.task == report.task])[report.id]
        title = " · ".join(filter(None, (f"{report.task} · {report.run} step {report.progress.step}", label)))
        out.print(shorten(title), style="italic", markup=False)
        print_items(out, results, full)
        if not results:
            out.print("no item failed" if failed else "no items are kept")
    if out is None:
        print_json(found)
