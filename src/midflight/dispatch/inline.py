"""Evaluates now, in the training process: the loop waits, and finds everything as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from midflight.dispatch.untouched import untouched

Result = TypeVar("Result")


class Inline:
    """Runs a job at once, with the training state guarded."""

    def dispatch(self, job: Callable[[], Result], modules: Iterable[Any] = ()) -> Result:
        """Runs the job and gives its result; what it raises passes through, after training state is restored.

        Args:
            job: The evaluation.
            modules: The torch modules that it uses.
        """
        with untouched(modules):
            return job()
