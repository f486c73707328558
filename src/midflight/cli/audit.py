"""`midflight audit`: who released what, when, on which evidence, and what came of it."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, ProjectOption, StoreOption, print_json


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

    events = existing_store(store).audit(project, execution)
    if json_:
        print_json([dataclasses.asdict(event) for event in events])
        return 0
    out = console()
    for table in audit_tables(events):
        out.print(table)
    if not events:
        chosen = " of this project, or of this number" if project or execution else ""
        out.print(f"no workflow{chosen} was carried out yet")
    return 0
