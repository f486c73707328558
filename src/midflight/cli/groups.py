"""`midflight groups`: several runs of a strategy as one curve, and strategies against each other."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, ProjectOption, StoreOption, print_json


def groups(
    patterns: Annotated[
        list[str],
        typer.Argument(help="Glob (sft-seed*), or regular expression whose group names the strategy: (.+)-seed.*"),
    ],
    by: Annotated[str, typer.Option("--by", help="name, or tag: then a pattern is a tag.")] = "name",
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task.")] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="Metric. Default: the first that each task names.")
    ] = None,
    slice_: Annotated[str, typer.Option("--slice", help="Slice of the items, e.g. subject=algebra.")] = "",
    paired: Annotated[bool, typer.Option("--paired", help="Runs of the same seed are pairs.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the resampling.")] = 0,
    project: ProjectOption = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Average runs that differ in their seed, with intervals over runs, and compare groups with the first one."""
    from midflight.analyse.evidence import runs_of
    from midflight.analyse.group_difference import aggregates_of, differences_of, not_compared
    from midflight.analyse.groups import group_curves, groups_of
    from midflight.cli._options import checked_seed, existing_store
    from midflight.errors import ConfigError, one_line
    from midflight.show.groups import groups_tables
    from midflight.show.tables import console

    if by not in ("name", "tag"):
        raise ConfigError("--by", got=by, allowed="name or tag")
    opened = existing_store(store)
    found = groups_of(runs_of(opened, project), patterns, by)  # type: ignore[arg-type]
    curves = group_curves(opened, found, task, metric, slice_)
    differences, aggregates = differences_of(curves, paired), aggregates_of(curves, seed=checked_seed(seed))
    untold = not_compared([group.name for group in found], curves)
    if json_:
        print_json(
            {
                "curves": list(map(dataclasses.asdict, curves)),
                "differences": list(map(dataclasses.asdict, differences)),
                "aggregates": list(map(dataclasses.asdict, aggregates)),
                "not_compared": untold,
            }
        )
        return 0
    for table in groups_tables(found, curves, differences, aggregates):
        console().print(table)
    if not curves:
        console().print("nothing was evaluated yet, or nothing has a finite value")
    for line in untold if curves else ():
        console().print(one_line(line), markup=False, soft_wrap=True)
    return 0
