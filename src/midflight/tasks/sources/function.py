"""A Python function that gives rows: ``package.module:function``, or the function itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from midflight.errors import TaskError
from midflight.tasks.sources.base import Row, Source


class FunctionSource(Source):
    """Rows that a function returns; it has to return the same ones each time it is called.

    Attributes:
        function: ``module:name``, or a callable.
        options: Keyword arguments for it.
    """

    kind: Literal["function"] = "function"
    function: str | Callable[..., Iterable[Mapping[str, Any]]]
    options: dict[str, Any] = Field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """What the function gives, in its order."""
        label = self.function if isinstance(self.function, str) else getattr(self.function, "__qualname__", "function")
        empty = True
        for index, row in enumerate(self._resolve()(**self.options)):
            empty = False
            if not isinstance(row, Mapping):
                raise TaskError(f"{label}[{index}]: a row must be a mapping of named columns", got=row)
            yield Row(dict(row), f"{label}[{index}]")
        if empty:
            raise TaskError(f"{label}: gave no rows")

    def _resolve(self) -> Callable[..., Iterable[Mapping[str, Any]]]:
        if not isinstance(self.function, str):
            return self.function
        module, _, name = self.function.partition(":")
        try:
            found: Any = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise TaskError(f"cannot find the function {self.function!r}: {error}", allowed="module:function") from None
        return found  # type: ignore[no-any-return]
