"""What a question may be asked with: each parameter says what it takes, for the reader and for OpenAPI alike."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import unquote_plus

from midflight.errors import ConfigError, is_text
from midflight.records import MAX_STEP

MAX_TEXT = 1000
"""Characters of a parameter."""
MAX_LIST = 20_000
"""Characters of a list."""
MAX_RUNS = 1000


@dataclass(frozen=True)
class Parameter(ABC):
    """One parameter.

    Attributes:
        name: Its name.
        about: What it does, for the document of the API.
        default: Its value where it is left out.
        in_path: Whether it is a part of the path.
        repeats: Whether it may be given several times.
    """

    name: str
    about: str = ""
    default: Any = None
    in_path: bool = False
    repeats: ClassVar[bool] = False
    is_list: ClassVar[bool] = False

    def read(self, given: Sequence[str]) -> Any:
        """Its value.

        Args:
            given: What the request has, as it is written in the URL; empty = it is left out.

        Raises:
            ConfigError: If it may not be that.
        """
        if not given:
            return self.default
        if len(given) > 1 and not self.repeats:
            raise self.refuse(given, "to be given once")
        if any(len(text) > MAX_LIST for text in given):
            raise self.refuse(given[0], f"up to {MAX_LIST} characters")
        parts = [part for text in given for part in text.split(",") if part] if self.is_list else given
        try:
            texts = [unquote_plus(part, errors="strict") for part in parts]
        except UnicodeDecodeError:
            raise self.refuse(given[0], "UTF-8") from None
        if any("\0" in text or not is_text(text) or (len(text) > MAX_TEXT and not self.is_list) for text in texts):
            raise self.refuse(texts[0], f"up to {MAX_TEXT} characters of text")
        return self.parse(texts)

    def refuse(self, got: object, allowed: str) -> ConfigError:
        """The error for a value that may not be."""
        return ConfigError(f"parameter {self.name}", got=got, allowed=allowed)

    @abstractmethod
    def parse(self, given: Sequence[str]) -> Any:
        """The value that texts stand for."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""


@dataclass(frozen=True)
class Text(Parameter):
    """Any text."""

    default: str = ""

    def parse(self, given: Sequence[str]) -> str:
        """The text as it is."""
        return given[0]

    def schema(self) -> dict[str, Any]:
        """A string."""
        return {"type": "string", "maxLength": MAX_TEXT}


@dataclass(frozen=True)
class Texts(Parameter):
    """A parameter that may be repeated."""

    default: tuple[str, ...] = ()
    most: int = 20
    repeats: ClassVar[bool] = True

    def parse(self, given: Sequence[str]) -> tuple[str, ...]:
        """The texts."""
        if len(given) > self.most:
            raise self.refuse(f"{len(given)} texts", f"up to {self.most}")
        return tuple(given)

    def schema(self) -> dict[str, Any]:
        """An array, spelled as a repeated parameter."""
        return {"type": "array", "maxItems": self.most, "items": {"type": "string", "maxLength": MAX_TEXT}}


@dataclass(frozen=True)
class Names(Parameter):
    """Names with commas between them; a comma within a name is spelled ``%2C``."""

    default: tuple[str, ...] = ()
    most: int = 200
    is_list: ClassVar[bool] = True

    def parse(self, given: Sequence[str]) -> tuple[str, ...]:
        """The names, each once."""
        if len(given) > self.most:
            raise self.refuse(f"{len(given)} names", f"up to {self.most} with commas between them")
        return tuple(dict.fromkeys(given))

    def schema(self) -> dict[str, Any]:
        """A string."""
        return {"type": "string", "maxLength": MAX_LIST}


@dataclass(frozen=True)
class Ids(Parameter):
    """Numbers with commas between them."""

    default: tuple[int, ...] = ()
    most: int = MAX_RUNS
    is_list: ClassVar[bool] = True

    def parse(self, given: Sequence[str]) -> tuple[int, ...]:
        """The numbers, each once."""
        parts = [part for text in given for part in text.split(",") if part]
        if len(parts) > self.most or not all(re.fullmatch(r"[0-9]{1,18}", part) for part in parts):
            raise self.refuse(",".join(parts), f"up to {self.most} numbers with commas between them, as in 3,4")
        return tuple(dict.fromkeys(map(int, parts)))

    def schema(self) -> dict[str, Any]:
        """A string."""
        return {"type": "string", "pattern": r"^[0-9]{1,18}(,[0-9]{1,18})*$", "maxLength": MAX_LIST}


@dataclass(frozen=True)
class Number(Parameter):
    """A whole number within bounds."""

    low: int = 0
    high: int = MAX_STEP

    def parse(self, given: Sequence[str]) -> int:
        """The number."""
        value = int(given[0]) if re.fullmatch(r"[0-9]{1,19}", given[0]) else -1
        if not self.low <= value <= self.high:
            raise self.refuse(given[0], f"a whole number from {self.low} to {self.high}")
        return value

    def schema(self) -> dict[str, Any]:
        """An integer."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Level(Parameter):
    """A confidence level."""

    default: float = 0.95

    def parse(self, given: Sequence[str]) -> float:
        """The number."""
        try:
            value = float(given[0])
        except ValueError:
            value = math.nan
        if not 0.5 <= value <= 0.9999:
            raise self.refuse(given[0], "a number from 0.5 to 0.9999")
        return value

    def schema(self) -> dict[str, Any]:
        """A number."""
        return {"type": "number", "minimum": 0.5, "maximum": 0.9999}


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a few words."""

    default: str = ""
    values: tuple[str, ...] = ()

    def parse(self, given: Sequence[str]) -> str:
        """The word."""
        if given[0] not in self.values:
            raise self.refuse(given[0], ", ".join(self.values))
        return given[0]

    def schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"type": "string", "enum": list(self.values)}


@dataclass(frozen=True)
class Flag(Parameter):
    """Yes or no, as 1 or 0."""

    default: bool = False

    def parse(self, given: Sequence[str]) -> bool:
        """Whether it is 1."""
        if given[0] not in ("0", "1"):
            raise self.refuse(given[0], "0, 1")
        return given[0] == "1"

    def schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"type": "string", "enum": ["0", "1"]}


def split_query(query: str) -> dict[str, list[str]]:
    """What a URL has behind its question mark, by name; values as they are written.

    >>> split_query("runs=3,4&keys=a%2Cb&pattern=x&pattern=y")
    {'runs': ['3,4'], 'keys': ['a%2Cb'], 'pattern': ['x', 'y']}
    """
    found: dict[str, list[str]] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        found.setdefault(unquote_plus(name), []).append(value)
    return {name: [value for value in values if value] for name, values in found.items()}


def read_all(known: Sequence[Parameter], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Values of all parameters.

    Raises:
        ConfigError: If one may not be what it is, or is not known.
    """
    names = [parameter.name for parameter in known]
    strange = next((name for name in given if name not in names), None)
    if strange is not None:
        raise ConfigError("parameter", got=strange, allowed=", ".join(names) or "none: it has none")
    return {parameter.name: parameter.read(given.get(parameter.name, ())) for parameter in known}
