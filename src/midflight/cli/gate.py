"""`midflight gate`: whether a model may go on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, path_argument, path_option, print_json
from midflight.errors import ConfigError

if TYPE_CHECKING:
    from midflight.analyse.evidence import Side
    from midflight.store import Store


def gate(
    policy: Annotated[Path, path_argument(help="TOML file that says what the model has to prove.")],
    candidate: Annotated[
        str | None,
        typer.Option(
            "--candidate", "-c", help="RUN, RUN@STEP, a report's JSON file, or lm-evaluation-harness results."
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        path_option("--report", help="A file with more results of the candidate; repeat it."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", "-b", help="The same, for what it is held against.")
    ] = None,
    out_dir: Annotated[
        Path | None, path_option("--out-dir", help="Write verdict.json, junit.xml and summary.md here.")
    ] = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Decide whether a model may go on: exit code 0 = pass, 1 = fail, 3 = inconclusive, 2 = bad input."""
    import dataclasses

    from midflight.analyse.evidence import side_of
    from midflight.gate import decide, read_policy
    from midflight.gate.files import write_files
    from midflight.show.tables import console
    from midflight.show.verdict import verdict_table

    asked = read_policy(policy)
    opened = _store(store, [name for name in (candidate, baseline) if name is not None])
    judged = _candidate(opened, candidate, report or ())
    against = side_of(opened, baseline) if baseline is not None else None
    verdict = decide(asked, judged, against, opened, id=uuid.uuid4().hex, created_at=time.time())
    if out_dir is not None:
        write_files(verdict, out_dir)
    if json_:
        print_json(dataclasses.asdict(verdict))
    else:
        console().print(verdict_table(verdict))
    return verdict.exit_code


def _store(url: str | None, names: Sequence[str]) -> Store | None:
    """The store, which has to be there if it or a run in it is named; else none will do."""
    from midflight.analyse.evidence import is_file
    from midflight.store import default_url, open_store

    needed = url is not None or not all(map(is_file, names))
    there = Path(default_url().rpartition(":///")[2]).expanduser().is_file()
    return open_store(url, create=False) if needed or there else None


def _candidate(store: Store | None, named: str | None, files: Sequence[Path]) -> Side:
    """What is judged: a run or files, or both."""
    from midflight.analyse.evidence import Side, side_of, side_of_files

    sides = [side_of(store, named)] if named is not None else []
    sides += [side_of_files(path) for path in files]
    if not sides:
        raise ConfigError("no candidate", allowed="--candidate RUN@STEP, or --report FILE")
    tasks = [task for side in sides for task in side.evidence]
    twice = sorted({task for task in tasks if tasks.count(task) > 1})
    if twice:
        raise ConfigError(f"the candidate has more than one result of {', '.join(twice)}")
    return Side(sides[0].label, {task: found for side in sides for task, found in side.evidence.items()})
