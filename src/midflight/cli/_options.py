"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from midflight.errors import ConfigError

if TYPE_CHECKING:
    from midflight.store import RunInfo, Store

StoreOption = Annotated[
    str | None, typer.Option("--store", help="URL or file of the store. Default: $MIDFLIGHT_STORE or midflight.db.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for machines.")]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Only this project.")]


def existing_store(url: str | None) -> Store:
    """The store to read from; it has to be there."""
    from midflight.store import open_store

    return open_store(url, create=False)


def find_run(store: Store, wanted: str) -> RunInfo:
    """The run that a person means: its number, its name, or project/name; the newest of that name.

    Raises:
        ConfigError: If there is none; says which there are.
    """
    runs = store.runs()
    if wanted.isdigit():
        found = [run for run in runs if run.id == int(wanted)]
    else:
        found = [run for run in runs if wanted in (run.name, f"{run.project}/{run.name}")]
    if not found:
        names = ", ".join(dict.fromkeys(run.name for run in runs[:10])) or "none yet"
        raise ConfigError(f"no run {wanted!r} in {store.url}", hint=f"there are: {names}")
    return found[0]
