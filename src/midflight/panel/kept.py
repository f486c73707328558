"""Results that hold for as long as what they were made of does."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any


class Kept:
    """Results by what they were made of; those that were not asked for longest give way.

    Args:
        most: How many there is room for.

    >>> kept = Kept(1)
    >>> [kept.get(key, lambda: key * 2) for key in (1, 1, 2)]
    [2, 2, 4]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[Hashable, Any] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result for a key, made if it is not there."""
        with self._lock:
            if key in self._found:
                self._found[key] = self._found.pop(key)  # the newest last
                return self._found[key]
        made = make()
        with self._lock:
            self._found[key] = made
            while len(self._found) > self._most:
                del self._found[next(iter(self._found))]
        return made
