"""`midflight compare`: sets of weights against a baseline."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, print_json

if TYPE_CHECKING:
    from midflight.analyse.evidence import Side
    from midflight.records import Difference


def compare(
    baseline: Annotated[
        str, typer.Argument(help="RUN, RUN@STEP, RUN@first, a report's JSON file, or lm-evaluation-harness results.")
    ],
    candidates: Annotated[list[str], typer.Argument(help="One or more of the same, held against the baseline.")],
    task: Annotated[list[str] | None, typer.Option("--task", "-t", help="Only this task; repeat it.")] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Metric, or all. Default: the first of each task.")
    ] = None,
    slices: Annotated[bool, typer.Option("--slices", help="Compare slice by slice, too.")] = False,
    items: Annotated[bool, typer.Option("--items", help="Show items that flipped, with both sides' outputs.")] = False,
    full: Annotated[bool, typer.Option("--full", help="With --items: all items, and all of their texts.")] = False,
    only_common_items: Annotated[
        bool, typer.Option("--only-common-items", help="Compare the items that both have, where they differ.")
    ] = False,
    across: Annotated[
        list[str] | None,
        typer.Option("--across", help="prompt, grader or sampling may differ: its effect is in question. Repeat it."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Confidence level.")] = 0.95,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Compare runs, checkpoints or result files, paired by item: difference, interval, p-value, items that flipped."""
    from midflight.analyse.compare import compare as compare_sides
    from midflight.analyse.evidence import named_sides
    from midflight.analyse.flips import flips
    from midflight.errors import ConfigError
    from midflight.show.compare import comparison_table, print_flips
    from midflight.show.tables import console

    if full and not items:
        raise ConfigError("--full", allowed="beside --items")
    first, *others = named_sides([baseline, *candidates], store)
    found = compare_sides(
        first, *others, tasks=task or (), metrics=metric or (), slices=slices, only_common_items=only_common_items,
        across=across or (), level=level,
    )  # fmt: skip
    flipped = [
        (row, side, flips(side.of(row.task), first.of(row.task), row.metric))
        for row in found.differences
        for side in others
        if items and side.label == row.candidate and not row.slice and _is_graded(side, row)
    ]
    if json_:
        changed = [
            {"candidate": row.candidate, "task": row.task, "metric": row.metric, **dataclasses.asdict(flip)}
            for row, _, found_flips in flipped
            for flip in found_flips
        ]
        print_json({**dataclasses.asdict(found), **({"flips": changed} if items else {})})
        return 0
    out = console()
    out.print(comparison_table(found))
    for row, side, found_flips in flipped:
        print_flips(out, found_flips, side.of(row.task), first.of(row.task), row.metric, full)
    return 0


def _is_graded(side: Side, row: Difference) -> bool:
    """Whether items are right or wrong by this metric, and were paired: others have no flips."""
    estimate = side.of(row.task).report.estimate(row.metric)
    return row.num_better is not None and estimate.lowest is not None and estimate.highest is not None
