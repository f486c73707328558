"""Nothing gets better any more, and there is enough data to say so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Track, at_its_top, start_level
from midflight.records import Finding, Severity

RECORDS = 200
"""Records of reward: a rise by a standard deviation of single records would be seen with more than 80 % in as many."""
Z = 2.0
"""Standard errors of the slope within which there is none."""
LOOKS = 1.25
"""Times as many records as at the last look: who looks often sees nothing somewhere."""
EVERY = 10
"""Records between two looks at a loss."""
RISE = 0.75
"""Standard deviations of single records by which the reward has not risen over all of them, at best."""
PLANNED = 0.5
"""Share of the planned steps before which a reward may be yet to come."""
LEVEL = 32
"""Records of loss whose median is the level."""
STEP_OF_GAIN = 0.03
"""Share of all that was gained so far which counts as further progress."""
TIMES = 3.0
"""Times as long as it took to get there that a loss has to stand still."""
FLAT_RECORDS = 100
CONVERGED = 0.02
"""Share of the first loss below which there is nothing left to gain."""
POWER = 2.8
"""Standard errors that a change has to have to be seen with 80 % at a level of 5 %."""


class Plateau(Detector):
    """A reward without a trend over 200 records and half of the plan; or a loss that stands still for long.

    For long is three times as long as it fell, 100 records at least.
    """

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("reward", "loss")
    algorithms = frozenset({"sft", "reward_model", "preference", "rl"})
    meaning = "The rest of the run costs compute and brings nothing that can be seen."
    advice = (
        "Stop, or change something: the learning rate (if the KL hardly moves, it is too low), the data, the reward, a "
        "term of the loss that is at its ceiling."
    )
    confirm = "Does a held-out score move? Is each term of the loss still going down?"

    def __init__(self) -> None:
        self._sums = _Line()
        self._next_look = RECORDS
        self._best = math.inf
        self._best_step = 0
        self._since = 0
        self._first: int | None = None
        self._best_eval = math.inf
        self._eval_step = -1

    def update(self, now: Moment) -> Finding | None:
        """Looks at the reward in RL, else at the loss."""
        if now.facts.algorithm == "rl":
            return self._reward(now) if "reward" in now.values else None
        return self._loss(now) if "loss" in now.values else None

    def _reward(self, now: Moment) -> Finding | None:
        track, line = now.past["reward"], self._sums
        reward = now.values["reward"]
        if reward - reward != 0:
            return None
        line.add(now.step, reward)
        if line.n < self._next_look:
            return None
        self._next_look = math.ceil(line.n * LOOKS)
        self.enough = True
        slope, error = line.slope()
        early = now.facts.planned_steps is not None and now.step < PLANNED * now.facts.planned_steps
        most = (slope + Z * error) * (now.step - line.first)
        if error == 0 or abs(slope) > Z * error or most > RISE * line.spread or early or at_its_top(track, EVERY):
            return None
        text = f"reward moved by {slope * 1000:+.2g} ± {error * 1000:.2g} a thousand steps over {line.n} records"
        return self.finding(now, line.first, ["reward"], text, slope=slope, stderr=error, records=line.n)

    def _loss(self, now: Moment) -> Finding | None:
        track = now.past["loss"]
        self._look_at_eval(now)
        self._first = now.step if self._first is None else self._first
        if track.count < 2 * LEVEL or track.count % EVERY:
            return None
        self.enough = True
        level, start = track.median(LEVEL), start_level(track)
        gained = start - min(level, self._best)
        if level < self._best - STEP_OF_GAIN * max(gained, 0.0) or self._best == math.inf:
            self._best, self._best_step, self._since = level, now.step, track.count
        flat = track.count - self._since
        long = now.step - self._best_step > TIMES * (self._best_step - self._first)
        if not long or flat < FLAT_RECORDS or level < CONVERGED * start or self._eval_step > self._best_step:
            return None
        _, spread = track.centre_and_spread(128)
        if gained <= 0 or POWER * spread * math.sqrt(12 / flat) > STEP_OF_GAIN * gained:
            return None  # too noisy to tell standing still from progress
        text = f"loss {level:.4g} since step {self._best_step}, {flat} records; it had fallen from {start:.4g} before"
        return self.finding(now, self._best_step, ["loss"], text, level=level, start=start, records=flat)

    def _look_at_eval(self, now: Moment) -> None:
        """A held-out loss that still falls is progress, whatever the training loss does."""
        track: Track | None = now.past.get("eval_loss")
        if track is not None and track.lowest < self._best_eval:
            self._best_eval, self._eval_step = track.lowest, now.step


class _Line:
    """A straight line through all records, by running sums around the first step."""

    def __init__(self) -> None:
        self.n, self.first = 0, 0
        self._x = self._y = self._xx = self._xy = self._yy = 0.0

    def add(self, step: int, value: float) -> None:
        if self.n == 0:
            self.first = step
        x = step - self.first
        self.n += 1
        self._x, self._y = self._x + x, self._y + value
        self._xx, self._xy, self._yy = self._xx + x * x, self._xy + x * value, self._yy + value * value

    @property
    def spread(self) -> float:
        """Standard deviation of the values."""
        return math.sqrt(max(0.0, self._yy - self._y * self._y / self.n) / (self.n - 1))

    def slope(self) -> tuple[float, float]:
        """Slope and its standard error (least squares)."""
        n = self.n
        sxx = self._xx - self._x * self._x / n
        sxy = self._xy - self._x * self._y / n
        syy = self._yy - self._y * self._y / n
        if sxx <= 0:
            return 0.0, 0.0
        slope = sxy / sxx
        return slope, math.sqrt(max(0.0, syy - slope * sxy) / (n - 2) / sxx)
