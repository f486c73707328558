"""`midflight store`: upkeep of a store's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, path_argument, print_json

DAMAGED = 1

store_app = typer.Typer(help="Check, compact or copy a store.", no_args_is_help=True)


@store_app.command("check")
def check(store: StoreOption = None, json_: JsonOption = False) -> int:
    """Read everything and say what is damaged; exit code 1 if anything is."""
    from midflight.cli._options import existing_store
    from midflight.errors import one_line

    opened = existing_store(store)
    problems = opened.check()
    if json_:
        print_json({"store": opened.url, "problems": problems})
    else:
        for problem in problems:
            print(one_line(problem))
        print(f"{opened.url}: {len(problems)} problems" if problems else f"{opened.url}: everything can be read")
    return DAMAGED if problems else 0


@store_app.command("compact")
def compact(store: StoreOption = None) -> int:
    """Pack series of runs that write no more, and give free room back to the disk."""
    from midflight.cli._options import existing_store
    from midflight.show.lines import number

    opened = existing_store(store, read_only=False)
    before, after = opened.compact()
    print(f"{opened.url}: {number(before, 3)}B, now {number(after, 3)}B")
    return 0


@store_app.command("backup")
def backup(
    target: Annotated[Path, path_argument(help="The new file; it must not be there yet.")],
    store: StoreOption = None,
) -> int:
    """Copy the store as it is at one moment, while trainings write to it."""
    from midflight.cli._options import existing_store
    from midflight.show.lines import number

    opened = existing_store(store)
    size = opened.backup(target)
    print(f"{target}: {number(size, 3)}B")
    return 0
