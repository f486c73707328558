"""A Python function that gives rows. Only Python can name one: a task file is data, and must not run code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from midflight.errors import TaskError
from midflight.tasks.sources.base import Row, Source


class FunctionSource(Source):
    """Rows that a function returns; it has to return the same ones each time it is called.

    Attributes:
        function: The function itself.
        options: Keyword arguments for it.
    """

    kind: Literal["function"] = "function"
    function: Callable[..., Iterable[Mapping[str, Any]]]
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("function", mode="before")
    @classmethod
    def _is_no_path(cls, function: Any) -> Any:
        if not callable(function):
            raise ValueError("a task file runs no code: give the function in Python, Task(name, function, ...)")
        return function

    def rows(self) -> Iterator[Row]:
        """What the function gives, in its order."""
        label = getattr(self.function, "__name__", "rows").replace("<lambda>", "rows")
        empty = True
        for index, row in enumerate(self.function(**self.options)):
            empty = False
            if not isinstance(row, Mapping):
                raise TaskError(f"{label}[{index}]: a row must be a mapping of named columns", got=row)
            yield Row(dict(row), f"{label}[{index}]")
        if empty:
            raise TaskError(f"{label}: gave no rows")
