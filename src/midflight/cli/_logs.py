"""What a person names: runs of the store, and logs, among them files that turn out to be none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def of_each(names: Sequence[str], read: Callable[[str], list[T]]) -> tuple[list[T], list[str]]:
    """What each name stands for, and why files were left out: among several, those that are no logs.

    Args:
        names: Paths and runs; one that is named twice counts once.
        read: Reads one of them.

    Raises:
        ConfigError: If there is nothing to look at, or a name is no file and cannot be read.
    """
    from midflight.errors import ConfigError

    found: list[T] = []
    unread: list[str] = []
    for name in dict.fromkeys(names):
        try:
            found += read(name)
        except ConfigError as error:
            if len(names) == 1 or not Path(name).is_file():
                raise
            unread.append(str(error))
    if not found:
        raise ConfigError("nothing to look at", hint="; ".join(unread))
    return found, unread


def say_unread(unread: Sequence[str]) -> None:
    """Names on stderr what was left out."""
    from midflight.show.tables import console

    for reason in unread:
        console(stderr=True).print(f"midflight: not looked at: {reason}", markup=False, soft_wrap=True)
