"""`midflight audit`: who released what, when, on which evidence, and what came of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import JsonOption, ProjectOption, StoreOption, print_json
from midflight.errors import ConfigError, shorten

if TYPE_CHECKING:
    from midflight.store import Store


def audit(
    execution: Annotated[str | None, typer.Argument(help="Only this execution.")] = None,
    store: StoreOption = None,
    project: ProjectOption = None,
    json_: JsonOption = False,
) -> int:
    """Print the audit trail of workflows, oldest first; it only grows."""
    from midflight.cli._options import existing_store
    from midflight.show.audit import audit_tables
    from midflight.show.tables import console

    opened = existing_store(store)
    events = opened.audit(project, execution)
    if not events:
        _check(opened, project, execution)
    if json_:
        print_json([dataclasses.asdict(event) for event in events])
        return 0
    out = console()
    for table in audit_tables(events):
        out.print(table)
    if not events:
        chosen = " of this project" if project is not None else ""
        out.print(f"no workflow{chosen} was carried out yet")
    return 0


def _check(store: Store, project: str | None, execution: str | None) -> None:
    """Whether there is such a project, and such an execution in it.

    Raises:
        ConfigError: If there is not; says what there is.
    """
    from midflight.analyse.evidence import unknown_project

    all_of_them = store.executions()
    projects = {run.project for run in store.runs()} | {one.project for one in all_of_them}
    if project is not None and project not in projects:
        raise unknown_project(store, project, projects)
    known = [one.id for one in all_of_them if project in (None, one.project)]
    if execution is not None:
        names = ", ".join(known[:10]) or "none"
        raise ConfigError(f"no execution {shorten(execution)!r} in {store.url}", hint=f"there are: {names}")
