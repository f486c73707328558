"""`midflight trend`: is it still improving, how noisy is it, and how good is the best checkpoint really?"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, print_json


def trend(
    runs: Annotated[list[str], typer.Argument(help="Numbers, names or project/names of runs.")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task.")] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="Metric. Default: the first that each task names.")
    ] = None,
    slice_: Annotated[str, typer.Option("--slice", help="Slice of the items, e.g. subject=algebra.")] = "",
    last: Annotated[int, typer.Option("--last", "-n", min=3, help="Checkpoints for slope and noise.")] = 10,
    min_gain: Annotated[
        float, typer.Option("--min-gain", min=0, help="Improvement in 1,000 steps that counts as one.")
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the resampling.")] = 0,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Tell whether runs still improve, how noisy their evaluations are, and which checkpoint is the best."""
    from midflight.analyse.evidence import find_run
    from midflight.analyse.trend import trends_of
    from midflight.cli._options import checked_seed, existing_store
    from midflight.show.tables import console
    from midflight.show.trend import trends_table

    opened = existing_store(store)
    chosen = [find_run(opened, name) for name in dict.fromkeys(runs)]
    trends = trends_of(opened, chosen, task, metric, slice_, last=last, min_gain=min_gain, seed=checked_seed(seed))
    if json_:
        print_json([dataclasses.asdict(found) for found in trends])
    elif trends:
        console().print(trends_table(trends))
    else:
        console().print("nothing was evaluated yet, or nothing has a finite value")
    return 0
