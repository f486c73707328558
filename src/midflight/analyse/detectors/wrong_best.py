"""The checkpoint that counts as the best is not."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import FEWEST, Course, Detector, Moment, middle
from midflight.analyse.learning_curve import JUDGES
from midflight.records import Finding, Severity

FEWEST_CLAIMED = 3
"""Evaluations of which the worst is no best."""
IN_A_ROW = 3
"""Evaluations, the newest ones, that are better than all up to the best checkpoint."""
SIGMA = 5.0
"""Standard deviations of single values by which their median is: there are several scores, and each is asked often."""
GAIN = 0.1
"""Share of the range of the score that is worth another checkpoint."""


class WrongBest(Detector):
    """The trainer's best is the worst of three evaluations or more; or three in a row beat it by another score."""

    severity: ClassVar[Severity] = "note"
    needs: ClassVar[Sequence[str]] = (*(name for name in JUDGES if name.startswith("eval_")), "heldout/")
    meaning = "The checkpoint that counts as the best is not the one to use."
    advice = (
        "Keep the later checkpoints; pick by the score that matters (`metric_for_best_model`) and say which way it is "
        "better: HF takes higher for better unless the name ends in `loss` (`greater_is_better`)."
    )
    confirm = "Which of the two checkpoints is better on items that neither was picked by?"

    def __init__(self) -> None:
        self._courses: dict[str, Course] = {}
        self._best, self._best_step, self._since = math.inf, 0, 0
        self._worst = -math.inf
        self._taken: float | None = None

    def update(self, now: Moment) -> Finding | None:
        """Looks at the series that picks the best first, then at the other scores."""
        judge = now.facts.judge
        for name in now.names:
            course = self._courses.get(name)
            if course is None:
                course = self._courses[name] = Course()
            course.add(now.step, now.values[name])
        if judge in now.names and judge in JUDGES:
            found = self._judged(now, judge)
            if found is not None:
                return found
        for name in now.names:
            if name != judge and JUDGES.get(name, True) and self._since >= IN_A_ROW:
                found = self._beaten(now, judge, name)
                if found is not None:
                    return found
        return None

    def _judged(self, now: Moment, judge: str) -> Finding | None:
        """Keeps the best and the worst; a finding if the trainer took the one for the other."""
        sign = -1.0 if JUDGES[judge] else 1.0
        value, claimed, course = sign * now.values[judge], now.facts.best_step, self._courses[judge]
        if value - value != 0:
            return None
        self._since += 1
        if value < self._best:
            self._best, self._best_step, self._since = value, now.step, 0
        if value > self._worst:
            self._worst = value
        if now.step == claimed:
            self._taken = value
        self.enough = len(course.values) >= FEWEST_CLAIMED
        if not self.enough or self._taken is None or self._taken < self._worst or self._worst == self._best:
            return None
        taken, best = sign * self._taken, sign * self._best
        name = now.facts.names.get(judge, judge)
        text = (
            f"the trainer's best is step {claimed}, where {name} is {taken:.4g}, the worst of {len(course.values)} "
            f"evaluations; it is {best:.4g} at step {self._best_step}"
        )
        return self.finding(now, claimed or 0, [judge], text, claimed=taken, best=best, best_step=self._best_step)

    def _beaten(self, now: Moment, judge: str, name: str) -> Finding | None:
        """A finding if a score has gone on rising since the best checkpoint."""
        course = self._courses[name]
        at = bisect_right(course.steps, self._best_step)
        before, newest = course.values[:at], course.values[-IN_A_ROW:]
        if not before or len(course.values) - at < IN_A_ROW or len(course.values) < FEWEST:
            return None
        level, bar = middle(newest), max(before)
        lowest, highest = min(course.values), course.values[course.highest]
        if min(newest) <= bar or level - bar <= max(SIGMA * course.scatter, GAIN * (highest - lowest)):
            return None
        ours = now.facts.names.get(name, name.removeprefix("heldout/"))
        theirs = now.facts.names.get(judge, judge)
        text = (
            f"by {theirs} step {self._best_step} is the best; {ours} has risen from {before[-1]:.4g} there to "
            f"{level:.4g}, {IN_A_ROW} evaluations in a row above all by then"
        )
        return self.finding(now, self._best_step, [judge, name], text, at_best=before[-1], level=level, bar=bar)
