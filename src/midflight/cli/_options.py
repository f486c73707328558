"""Options that several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midflight.errors import ConfigError

if TYPE_CHECKING:
    from midflight.store import RunInfo, Store

StoreOption = Annotated[
    str | None, typer.Option("--store", help="URL or file of the store. Default: $MIDFLIGHT_STORE or midflight.db.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for machines.")]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Only this project.")]


MAX_STEP = 1 << 62


def checked_step(step: int | None) -> int | None:
    """A step that the store can keep.

    Raises:
        ConfigError: If it is none.
    """
    if step is not None and not 0 <= step <= MAX_STEP:
        raise ConfigError("--step", got=step, allowed=f"a whole number from 0 to {MAX_STEP}")
    return step


def print_json(value: Any) -> None:
    """Prints plain values as JSON, for machines."""
    from midflight.schema import to_json

    sys.stdout.write(to_json(value, indent=2) + "\n")


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
    if wanted.isdecimal():
        found = [run for run in runs if run.id == int(wanted)]
    else:
        found = [run for run in runs if wanted in (run.name, f"{run.project}/{run.name}")]
    if not found:
        names = ", ".join(dict.fromkeys(run.name for run in runs[:10])) or "none yet"
        raise ConfigError(f"no run {wanted!r} in {store.url}", hint=f"there are: {names}")
    return found[0]
