"""`midflight sweep`: which hyper-parameters matter, and which runs to stop."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, ProjectOption, StoreOption, path_option, print_json


def sweep(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Numbers, names or project/names. Default: all runs of --project.")
    ] = None,
    project: ProjectOption = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="Metric, task/metric, or training series. Default: found.")
    ] = None,
    pick: Annotated[str, typer.Option("--pick", help="best or last value, up to the step all have reached.")] = "best",
    higher_is_better: Annotated[
        bool | None,
        typer.Option("--higher-is-better/--lower-is-better", help="Direction, where a series' name does not tell it."),
    ] = None,
    whole_only: Annotated[
        bool, typer.Option("--whole-only", help="Leave out runs that have not come as far as the longest.")
    ] = False,
    eta: Annotated[float, typer.Option("--eta", help="Successive halving keeps the best 1/eta at each rung.")] = 3.0,
    first_rung: Annotated[
        int | None, typer.Option("--first-rung", help="Step of the first rung. Default: when all have been measured.")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Confidence level.")] = 0.95,
    out: Annotated[Path | None, path_option("--out", "-o", help="Draw it: .png, .svg or .pdf.")] = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Tell which hyper-parameters explain the outcome of runs, with intervals, and which running run to stop first."""
    from midflight.analyse.evidence import find_run, runs_of
    from midflight.analyse.sweep import sweep_of
    from midflight.cli._options import checked_step, existing_store
    from midflight.errors import ConfigError
    from midflight.show.sweep import draw_sweep, sweep_tables
    from midflight.show.tables import console

    if pick not in ("best", "last"):
        raise ConfigError("--pick", got=pick, allowed="best or last")
    if not runs and project is None:
        raise ConfigError("runs of a sweep", got="none", allowed="two or more names, or --project")
    opened = existing_store(store)
    chosen = [find_run(opened, name, project) for name in runs] if runs else runs_of(opened, project)
    found = sweep_of(
        opened,
        chosen,
        metric,
        pick=pick,  # type: ignore[arg-type]
        higher_is_better=higher_is_better,
        whole_only=whole_only,
        level=level,
        eta=eta,
        first_rung=checked_step(first_rung, "--first-rung"),
    )
    if out is not None:
        draw_sweep(found, out)
    if json_:
        print_json({name: value for name, value in dataclasses.asdict(found).items() if name != "curves"})
    else:
        console().print(sweep_tables(found))
    return 0
