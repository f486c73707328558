"""Whether training should end, as the evaluator tells the loop: every rank hears the same."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from midflight.analyse.early_stop import StopAdvice, advice_of_findings, advice_of_trends
from midflight.errors import StoreError
from midflight.evaluator.config import EvaluatorConfig
from midflight.run import Run
from midflight.tasks import Task
from midflight.triggers.frequency import Agree

logger = logging.getLogger("midflight")


class Stopping:
    """Asks the detectors at every step, and the evaluations whenever a report has come in.

    Args:
        config: What the user set.
        tasks: What is evaluated.
        run: The run; None = there is nothing to ask.
        agree: Tells all ranks what rank 0 knows; None = there is one rank.
    """

    def __init__(self, config: EvaluatorConfig, tasks: Sequence[Task], run: Run | None, agree: Agree | None) -> None:
        self.advice: StopAdvice | None = None
        self.should_stop = False
        # a warning needs no other rank: ranks speak, and may wait for one that is gone, only if training may end by it
        self._agree = agree if config.early_stop == "stop" else None
        self._config, self._tasks = config, [task.name for task in tasks]
        self._run = run if run is not None and run.enabled and config.early_stop != "off" else None
        self._seen = (0, 0)

    def look(self, step: int, num_reports: int, due: bool) -> None:
        """Looks at what is new; with several ranks only where they speak anyway, at steps with an evaluation."""
        if self._run is None and self._agree is None:
            return
        if self.should_stop or (self._agree is not None and not due):
            return
        if self._run is not None and self.advice is None:
            seen = (len(self._run.findings), num_reports)
            if seen != self._seen:
                self._seen = seen
                self._ask(self._run, step)
        stop = self.advice is not None and self._config.early_stop == "stop"
        self.should_stop = stop if self._agree is None else bool(self._agree([float(stop)])[0])

    def _ask(self, run: Run, step: int) -> None:
        try:
            self.advice = advice_of_findings(run.store, run.info, run.findings, step, self._tasks)
            if self.advice is None and self._config.early_stop == "stop":
                gain, level = self._config.min_gain, self._config.level
                self.advice = advice_of_trends(run.store, run.info, step, self._tasks, gain, level)
        except StoreError as error:
            logger.warning("midflight: whether training should end cannot be told now: %s", error)
        if self.advice is not None:
            logger.warning("midflight: %s", self.advice)
