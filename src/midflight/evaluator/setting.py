"""What an evaluation needs to know of the training that it belongs to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from midflight.engines.base import BaseEngine
from midflight.errors import EvaluationError
from midflight.evaluator.config import EvaluatorConfig
from midflight.metrics import BaseMetric
from midflight.records import EvalReport, Progress
from midflight.run import Run
from midflight.show.lines import report_line, say
from midflight.tasks import Task
from midflight.triggers import Budget

logger = logging.getLogger("midflight")


@dataclass
class Setting:
    """What an evaluation needs to know of the training that it belongs to.

    Attributes:
        config: When and how.
        engine: What answers; None if there is nothing but a function of the user's.
        run: Where results belong; None = they are only returned.
        on_report: Called with each report.
        quiet: Whether to print nothing.
        registered: Metrics of the user's.
        reports: All reports so far.
        budget: What evaluations took of the time.
    """

    config: EvaluatorConfig
    engine: BaseEngine | None
    run: Run | None
    on_report: Callable[[EvalReport], None] | None
    quiet: bool
    budget: Budget
    registered: dict[str, type[BaseMetric]] = field(default_factory=dict)
    reports: list[EvalReport] = field(default_factory=list)

    def take(self, report: EvalReport, seconds: float) -> None:
        """Keeps, shows and passes on a report.

        Args:
            report: The report.
            seconds: What it took now; a result from the store takes none.
        """
        self.budget.spend(seconds)
        self.reports.append(report)
        if not self.quiet:
            say(report_line(report))
        if self.run is not None:
            self.run.evaluated(report)
        if self.on_report is not None:
            self.on_report(report)

    def failed(self, step: int, failures: Mapping[str, str], then: str, error: Exception | None = None) -> None:
        """Says what failed, and raises if training is to end with it.

        Raises:
            EvaluationError: If `on_error` is ``raise``; or `error`, if there is one.
        """
        text = f"evaluation at step {step} failed: " + "; ".join(f"{name}: {why}" for name, why in failures.items())
        if self.config.on_error == "raise":
            raise error or EvaluationError(text)
        logger.warning("midflight: %s; training goes on, %s", text, then)


class Way(Protocol):
    """How due evaluations are made: `BetweenSteps` or `BesideTraining`."""

    def start(self, tasks: Sequence[Task], progress: Progress, measure: bool) -> list[EvalReport]:
        """Before the first update; measures the tasks, or those that a crash had cost these weights."""

    def measure(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """Measures the current weights."""

    def go_on(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """After a step at which nothing is due."""

    def finish(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """After the last update; measures what was not measured on these weights."""

    def close(self) -> None:
        """Gives up what still runs."""

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs, as plain JSON."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
