"""JSON as logs hold it: bare NaN, duplicated keys, nested values, files of any length that may break off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from midflight.analyse.importers._numbers import is_missing, value_of
from midflight.analyse.importers._source import Source

_DEPTH = 6
MAX_VALUE = 1 << 27
"""Characters of one value that are read at most."""
_SPACE = re.compile(r"[\s,]*")
_BREAKS = (ValueError, RecursionError)
"""What the decoder raises: broken JSON, numbers of 5,000 digits, nesting without end."""


class _Pairs(dict[str, Any]):
    """An object; keeps how many of its keys stood there twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.duplicates = len(pairs) - len(self)


DECODER = json.JSONDecoder()
_STRICT = json.JSONDecoder(object_pairs_hook=_Pairs)


def json_object(text: str, source: Source) -> dict[str, Any] | None:
    """The object that a line of JSON is; None if it is none. Of a key that stands there twice the last value counts."""
    try:
        value = _STRICT.decode(text)
    except _BREAKS:
        return None
    if not isinstance(value, _Pairs):
        return None
    if value.duplicates:
        source.skip("keys that a record holds twice", text)
    return value


def plain_values(raw: Mapping[str, Any], source: Source, prefix: str = "", depth: int = 0) -> dict[str, float]:
    """The numbers of an object, those of nested objects under ``outer/inner``; the rest is counted in the source."""
    values: dict[str, float] = {}
    for key, value in raw.items():
        name = f"{prefix}{key}"
        if isinstance(value, int | float):  # a boolean as 0 or 1
            values[name] = _float(value)
        elif isinstance(value, str):
            found = value_of(name, value)
            if found is not None:
                values[name] = found
            else:
                source.skip(
                    "missing values" if is_missing(value) else "texts among the values", f"{name}: {value[:200]}"
                )
        elif isinstance(value, Mapping) and depth < _DEPTH:
            values.update(plain_values(value, source, f"{name}/", depth + 1))
        elif value is None:
            source.skip("missing values", f"{name}: null")
        else:
            source.skip("lists among the values", name)
    return values


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of 400 digits
        return float("inf") if value > 0 else float("-inf")


def members(source: Source) -> Iterator[tuple[str, Any]]:
    """Members of the object that a file is, with their keys; those of a list one by one.

    Memory is bounded by the largest member. Where the file breaks off, or is no JSON any more, reading ends, counted.
    """
    reader = _Reader(source)
    if not reader.take("{"):
        return
    while (key := reader.value()) is not None and isinstance(key, str) and reader.take(":"):
        if reader.take("["):
            while not reader.take("]"):
                value = reader.value()
                if value is None and reader.broken:
                    return
                yield key, value
        else:
            value = reader.value()
            if value is None and reader.broken:
                return
            yield key, value
        if reader.take("}"):
            return


def items(source: Source) -> Iterator[Any]:
    """Items of the array that a file is, one by one."""
    reader = _Reader(source)
    if reader.take("["):
        while not reader.take("]"):
            value = reader.value()
            if value is None and reader.broken:
                return
            yield value


class _Reader:
    """Values out of a stream of text."""

    def __init__(self, source: Source) -> None:
        self._source, self._texts = source, source.texts()
        self._text, self._at = "", 0
        self.broken = False

    def take(self, sign: str) -> bool:
        """Whether this sign comes next; it is passed over then."""
        self._skip_space()
        if self._text.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def value(self) -> Any:
        """The next value; None, and `broken`, if there is none."""
        self._skip_space()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except _BREAKS:
                if self._more(len(self._text) - self._at):  # twice as much: few tries, however long it is
                    continue
                return self._break()
            # a number that ends where the text ends may go on in the next piece
            if end == len(self._text) and not isinstance(value, str | dict | list) and self._more():
                continue
            self._at = end
            return value

    def _break(self) -> None:
        self.broken = True
        self._source.skip("broken JSON", self._text[self._at : self._at + 200])

    def _skip_space(self) -> None:
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not self._more():
                return

    def _more(self, wanted: int = 1) -> bool:
        """Reads so many characters at least; False if there are none, or a value would be longer than any."""
        pieces, length = [self._text[self._at :]], 0
        while length < max(wanted, 1) <= MAX_VALUE and (piece := next(self._texts, None)) is not None:
            pieces.append(piece)
            length += len(piece)
        self._text, self._at = "".join(pieces), 0
        return length > 0
