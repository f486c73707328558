"""What a source is: a strict config that gives rows, each with the place it came from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from midflight.config import Config


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a source.

    Attributes:
        data: Column to value.
        origin: Where it stands, for errors: ``file.jsonl:17``.
    """

    data: Mapping[str, Any]
    origin: str


class Source(Config):
    """Base of all sources. Fields of the subclass are the keys of the ``[source]`` table."""

    kind: str

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """All rows, in the order of the source, which is the same every time.

        Raises:
            TaskError: If the source cannot be read; names file, line and cause.
            MissingExtraError: If the package that reads it is not installed.
        """

    def with_split(self, split: str) -> Source:
        """The same source, another split: where few-shot examples come from.

        Raises:
            TaskError: If the source has no splits.
        """
        from midflight.errors import TaskError

        raise TaskError(
            f"a source of kind {self.kind!r} has no splits", got=split, hint="give [fewshot] a source table of its own"
        )


Format = Literal["jsonl", "json", "csv", "parquet"]
