"""`midflight show`: one run."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption


def show(
    run: Annotated[str, typer.Argument(help="Number, name or project/name of the run.")],
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Show a run: the curve of each task as a table, and the newest value of each training series."""
    from midflight.cli._options import existing_store, find_run
    from midflight.schema import report_to_json
    from midflight.show.tables import console, curve_table, heads_table, state_of

    opened = existing_store(store)
    info = find_run(opened, run)
    reports = opened.reports(info.id)
    if json_:
        json.dump([json.loads(report_to_json(report)) for report in reports], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return 0
    out = console()
    out.print(f"{info.project}/{info.name} (run {info.id}): {state_of(info)}", markup=False)
    if info.lost_points:
        out.print(f"{info.lost_points:,} points were lost while the store could not be written to", markup=False)
    for task in dict.fromkeys(report.task for report in reports):
        out.print(curve_table([report for report in reports if report.task == task]))
    heads = opened.heads(info.id)
    if heads:
        out.print(heads_table(heads))
    if not reports and not heads:
        out.print("nothing was logged or evaluated yet")
    return 0
