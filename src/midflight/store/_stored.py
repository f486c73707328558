"""Values as they lie in the file; what is damaged is named by its table, row and column."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from midflight.errors import MidflightError, StoreError, shorten

T = TypeVar("T")

NAMES = "`midflight store check` names all that is damaged"


def stored_json(text: str | bytes, table: str, row: object, column: str) -> Any:
    """A value that was kept as JSON.

    Raises:
        StoreError: If it is none; names where it is.
    """
    return stored(json.loads, text, table, row, column)


def stored(read: Callable[[Any], T], value: Any, table: str, row: object, column: str) -> T:
    """What `read` makes of a kept value.

    Raises:
        StoreError: If it cannot be read; names where it is.
    """
    try:
        return read(value)
    except (ValueError, TypeError, LookupError, AttributeError, struct.error, RecursionError, MidflightError) as error:
        raise StoreError(f"{place(table, row, column)} is damaged: {shorten(str(error))}", hint=NAMES) from None


def place(table: str, row: object, column: str) -> str:
    """Where a value lies, in words."""
    return f"table {table}, row {shorten(str(row), 120)}, column {column}"


def legible(raw: bytes) -> str:
    """A text with escapes for the bytes that are no UTF-8: a name that is damaged still tells rows apart."""
    return raw.decode(errors="backslashreplace")
