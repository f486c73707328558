"""`midflight import`: training logs of other tools into a store."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midflight.cli._options import JsonOption, StoreOption, path_argument, print_json

if TYPE_CHECKING:
    from midflight.analyse.importers import StoredRun


def import_logs(
    paths: Annotated[list[Path], path_argument(help="Log files, plain or gzipped, or folders of them.")],
    run: Annotated[str | None, typer.Option("--run", help="Name of the run. Default: the file's or folder's.")] = None,
    project: Annotated[str, typer.Option("--project", help="Project that the runs belong to.")] = "imported",
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Read training logs of any known format into the store, as finished runs; the same content once."""
    from midflight.analyse.importers import read_any, store_runs
    from midflight.show.imports import imports_table
    from midflight.show.tables import console
    from midflight.store import open_store

    found = [one for path in paths for one in read_any(path)]
    stored = store_runs(found, open_store(store), project, run)
    if json_:
        print_json([_plain(one) for one in stored])
    else:
        console().print(imports_table(stored))
    return 0


def _plain(stored: StoredRun) -> dict[str, Any]:
    """What was read of a run, without its points."""
    run = stored.run
    return {
        "run": stored.info.id,
        "name": stored.info.name,
        "project": stored.info.project,
        "is_new": stored.is_new,
        "files": run.files,
        "formats": run.formats,
        "num_records": run.num_records,
        "num_eval_records": run.num_eval_records,
        "first_step": run.first_step,
        "last_step": run.last_step,
        "planned_steps": run.planned_steps,
        "num_superseded": run.num_superseded,
        "series": {
            key: {
                "canonical": run.canonical.get(key),
                "evaluation": key in run.eval_keys,
                "num_points": len(series),
                "first_step": int(series.steps[0]),
                "last_step": int(series.steps[-1]),
                "last_value": float(series.values[-1]),
            }
            for key, series in run.series.items()
        },
        "summary": dict(run.summary),
        "unread": [dataclasses.asdict(unread) for unread in run.unread],
        "notes": run.notes,
    }
