"""`midflight plot`: curves of one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import StoreOption, path_option


def plot(
    metric: Annotated[
        list[str], typer.Option("--metric", "-m", help="Metric, task/metric, or training series; repeat it.")
    ],
    out: Annotated[Path, path_option("--out", "-o", help="File: .png, .svg or .pdf.")],
    runs: Annotated[list[str] | None, typer.Argument(help="Numbers, names or project/names of runs.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", help="Instead of runs: their mean with its interval; as in midflight groups."),
    ] = None,
    slice_: Annotated[str, typer.Option("--slice", help="Slice of the items, e.g. subject=algebra.")] = "",
    by: Annotated[str, typer.Option("--by", help="Name of a slice: a curve for each of its values.")] = "",
    x: Annotated[str, typer.Option("--x", help="step, epoch or tokens.")] = "step",
    store: StoreOption = None,
) -> int:
    """Draw metrics over training, with interval bands; several runs in one picture."""
    from midflight.analyse.evidence import find_run
    from midflight.analyse.groups import groups_of
    from midflight.cli._options import existing_store
    from midflight.errors import ConfigError, shorten
    from midflight.show.panels import group_panels_of, panels_of
    from midflight.show.plot import draw
    from midflight.show.tables import console

    if x not in ("step", "epoch", "tokens"):
        raise ConfigError("--x", got=x, allowed="step, epoch or tokens")
    if by and slice_:
        raise ConfigError("--by and --slice", got=(by, slice_), allowed="one of them")
    if bool(runs) == bool(group):
        raise ConfigError("runs and --group", got=(runs, group), allowed="one of them")
    if group and (by or x != "step"):
        raise ConfigError("--group", allowed="without --by, and with --x step")
    opened = existing_store(store)
    if group:
        found = groups_of(opened.runs(), group)
        chosen = [member.run for one in found for member in one.members]
        panels = [panel for key in metric for panel in group_panels_of(opened, found, key, slice_)]
    else:
        chosen = [find_run(opened, name) for name in runs or ()]
        panels = [panel for key in metric for panel in panels_of(opened, chosen, key, slice_, by)]
    draw(panels, out, x)  # type: ignore[arg-type]
    counts = f"panels: {len(panels)}, runs: {len(chosen)}"
    console(stderr=True).print(f"midflight: {shorten(str(out))}: {counts}", markup=False, soft_wrap=True)
    return 0
