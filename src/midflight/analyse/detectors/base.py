"""What a detector is: it sees a run record by record, only ever the past, and says once what it noticed.

Names of metrics are the canonical ones of `midflight.analyse.names`. A detector never depends on the unit of a loss or
on how often was logged, beyond what that loses, and says nothing while there is too little data.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from midflight.records import Finding, Severity

Algorithm: TypeAlias = Literal["pretrain", "sft", "reward_model", "preference", "rl", "unknown"]
"""What is trained how: `preference` is DPO, KTO, ORPO and their kin, `rl` is GRPO, PPO and theirs; `unknown` is what
logs a loss and no reward, and does not tell more."""

Pick: TypeAlias = Callable[[Sequence[float]], float]
"""Makes one value of several."""

SUPERVISED: frozenset[Algorithm] = frozenset({"pretrain", "sft", "reward_model", "preference", "unknown"})
ANY: frozenset[Algorithm] = SUPERVISED | {"rl"}

KEPT = 256
"""Values of a series that a detector can look back on."""
OPENING = 16
"""First values of a series that are kept for good."""
RARE = 0.005
"""Streaks that chance gives in a run so far, below which there is more to one."""
TOP = 0.05
"""Share of the range of a reward, below its highest, that counts as its top."""
LAG = 4
"""Values over which changes are taken: noise that lasts for some records shows, a trend does not."""
FEWEST = 6
"""Values by which a course can be told from its scatter."""
PENALTY = re.compile("penal|punish|overlong|repetition|cost|risk", re.IGNORECASE)
"""Names of reward components that take away: 0 is the best there is."""
MAD_TO_SD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def middle(values: Sequence[float]) -> float:
    """Median of some values; `statistics.median` without what it checks, at a third of the time.

    >>> middle([3.0, 1.0, 2.0]), middle([4.0, 1.0])
    (2.0, 2.5)
    """
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Track:
    """One series so far: its opening, its recent values, its extremes.

    Attributes:
        count: Finite values so far.
        last: The newest value.
        opening: The first finite values.
        recent: The newest finite values.
        steps: Their steps.
        lowest: The smallest finite value so far.
        highest: The largest.
    """

    __slots__ = ("_noise", "_spread", "_start", "count", "highest", "last", "lowest", "opening", "recent", "steps")

    def __init__(self) -> None:
        self.count = 0
        self.last = float("nan")
        self.opening: list[float] = []
        self.recent: list[float] = []
        self.steps: list[int] = []
        self.lowest, self.highest = float("inf"), float("-inf")
        self._noise: dict[int, tuple[int, float]] = {}
        self._spread: dict[int, tuple[int, float, float]] = {}
        self._start: dict[tuple[Pick, int], float] = {}

    def add(self, step: int, value: float) -> None:
        """Takes the next value; what is not finite is kept as `last` alone."""
        self.last = value
        if value - value != 0:  # NaN or infinite
            return
        self.count += 1
        if self.count <= OPENING:
            self.opening.append(value)
        self.recent.append(value)
        self.steps.append(step)
        if len(self.recent) == 2 * KEPT:
            del self.recent[:KEPT], self.steps[:KEPT]
        if value < self.lowest:
            self.lowest = value
        if value > self.highest:
            self.highest = value

    def newest(self, n: int) -> list[float]:
        """The last n finite values, oldest first; `KEPT` at most can be relied on."""
        return self.recent[-n:]

    def step_of_newest(self, n: int) -> int:
        """Step of the first of the last n finite values."""
        return self.steps[-min(n, len(self.steps))]

    def median(self, n: int) -> float:
        """Median of the last n finite values."""
        return middle(self.recent[-n:])

    def start(self, pick: Pick, n: int) -> float:
        """What is picked of the first n values, `OPENING` at most."""
        known = self._start.get((pick, n))
        if known is None:
            known = pick(self.opening[:n])
            if self.count >= n:  # it changes no more
                self._start[pick, n] = known
        return known

    def noise(self, n: int) -> float:
        """Robust standard deviation of single values about whatever trend or jump there is, renewed every n ÷ 8 values.

        The median size of the changes over some values, scaled to a normal distribution; 0 if there are too few.
        """
        at, noise = self._noise.get(n, (-n, 0.0))
        if self.count - at >= max(1, n // 8):
            values = self.newest(n)
            changes = [abs(after - before) for before, after in zip(values, values[LAG:], strict=False)]
            noise = MAD_TO_SD * middle(changes) / math.sqrt(2) if changes else 0.0
            self._noise[n] = self.count, noise
        return noise

    def centre_and_spread(self, n: int) -> tuple[float, float]:
        """Median and robust standard deviation of the last n finite values, renewed every n ÷ 8 values.

        The spread is the median absolute deviation, scaled to a normal distribution's standard deviation.
        """
        at, centre, spread = self._spread.get(n, (-n, 0.0, 0.0))
        if self.count - at >= max(1, n // 8):
            values = self.newest(n)
            centre = middle(values)
            spread = MAD_TO_SD * middle([abs(value - centre) for value in values])
            self._spread[n] = self.count, centre, spread
        return centre, spread


class Course:
    """Few values of a series, and how far single ones lie off a smooth course: evaluations, or means of blocks.

    Attributes:
        steps: Their steps.
        values: The values, finite.
        highest: Place of the largest, the first of equals.
    """

    __slots__ = ("_rough", "highest", "steps", "values")

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.values: list[float] = []
        self.highest = 0
        self._rough = 0.0

    def add(self, step: int, value: float) -> None:
        """Takes the next value; what is not finite is left out."""
        if value - value != 0:
            return
        if len(self.values) > 1:
            bend = value - 2 * self.values[-1] + self.values[-2]
            self._rough += bend * bend
        if self.values and value > self.values[self.highest]:
            self.highest = len(self.values)
        self.steps.append(step)
        self.values.append(value)

    @property
    def scatter(self) -> float:
        """Standard deviation of single values; infinite while there are too few.

        From second differences, whose variance is six times as large and which a straight line does not enter (Gasser,
        Sroka and Jennen-Steinmetz 1986, Biometrika 73:625).

        >>> course = Course()
        >>> for step, value in enumerate([0.0, 1.0, 2.0, 3.0, 4.0, 6.0]):
        ...     course.add(step, value)
        >>> round(course.scatter, 4)
        0.2041
        """
        count = len(self.values)
        return math.sqrt(self._rough / (6 * (count - 2))) if count >= FEWEST else math.inf


@dataclass(frozen=True)
class Facts:
    """What is known of a run beside its series.

    Attributes:
        algorithm: What is trained how.
        planned_steps: Steps that were planned; None = not known.
        length_limit: Tokens that a completion may have; None = not known.
        names: Canonical name to the name that was logged.
        judge: Canonical name of the series that picks the best checkpoint.
        best_step: Step of the checkpoint that the trainer calls its best; None = not known.
    """

    algorithm: Algorithm = "unknown"
    planned_steps: int | None = None
    length_limit: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    judge: str = "eval_loss"
    best_step: int | None = None


@dataclass(slots=True)
class Moment:
    """A record, and all that came before it.

    Attributes:
        step: The record's step.
        span: Steps since the record before it, 1 at least: a logged value is often a mean over them.
        values: The record, by canonical name.
        past: Series so far, this record included.
        facts: What is known of the run.
        names: Those of the record that the detector which looks at it asked for.
    """

    step: int
    span: int
    values: Mapping[str, float]
    past: Mapping[str, Track]
    facts: Facts
    names: Sequence[str] = ()


class Detector(ABC):
    """Notices one kind of thing, once a run; once more, if it said it with less than its own severity before.

    Attributes:
        kind: The file's name.
        severity: How bad it is.
        needs: It is asked at records that have one of these series; a series that ends in ``/`` stands for all below.
        algorithms: Where it makes sense; elsewhere its signal is void.
        meaning: What it means.
        advice: What to try.
        confirm: What would confirm it.
    """

    kind: ClassVar[str] = ""
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ()
    algorithms: ClassVar[frozenset[Algorithm]] = ANY
    meaning: ClassVar[str] = ""
    advice: ClassVar[str] = ""
    confirm: ClassVar[str] = ""

    enough: bool = False
    """Whether there was enough data to judge by, once at least."""

    @abstractmethod
    def update(self, now: Moment) -> Finding | None:
        """Looks at a record; sets `enough` where it can judge. Asked no more once it said so with its own severity."""

    def finding(
        self,
        now: Moment,
        onset: int,
        metrics: Sequence[str],
        text: str,
        severity: Severity | None = None,
        **evidence: float,
    ) -> Finding:
        """What it noticed, with the names that were logged."""
        return Finding(
            self.kind,
            severity or self.severity,
            onset,
            now.step,
            [now.facts.names.get(name, name) for name in metrics],
            text,
            evidence,
            self.meaning,
            self.advice,
            self.confirm,
        )


class Streak:
    """Counts records in a row for which something holds.

    >>> streak = Streak()
    >>> [streak.hold(step, step > 2) for step in (1, 2, 3, 4)], streak.onset
    ([0, 0, 1, 2], 3)
    """

    __slots__ = ("count", "onset")

    def __init__(self) -> None:
        self.count, self.onset = 0, 0

    def hold(self, step: int, holds: bool) -> int:
        """How many in a row, this one included."""
        if not holds:
            self.count = 0
        else:
            if self.count == 0:
                self.onset = step
            self.count += 1
        return self.count


class Chance:
    """How many records in a row something has to hold, given how often it held before, to be no chance.

    Groups of answers without spread come and go: where one record in two has none, ten in a row tell nothing.

    >>> chance = Chance(at_least=5)
    >>> [chance.hold(step, step > 20) for step in range(1, 26)][-2:], chance.onset
    ([False, True], 21)
    """

    __slots__ = ("_at_least", "_held", "_seen", "_streak")

    def __init__(self, at_least: int) -> None:
        self._at_least = at_least
        self._streak = Streak()
        self._seen = self._held = 0  # records before the present streak, and those of them for which it held

    @property
    def onset(self) -> int:
        """Step at which the present streak began."""
        return self._streak.onset

    @property
    def count(self) -> int:
        """Records in the present streak."""
        return self._streak.count

    def hold(self, step: int, holds: bool, at_least: int = 0) -> bool:
        """Whether it has held for long enough, this record included."""
        before = self._streak.count
        count = self._streak.hold(step, holds)
        if count == 0:
            self._seen, self._held = self._seen + before + 1, self._held + before
            return False
        seen = self._seen + 4  # as if it had held in one of four before there was a record
        share = (self._held + 1) / seen
        return count >= max(self._at_least, at_least) and seen * share**count < RARE


def at_its_top(reward: Track | None, n: int) -> bool:
    """Whether the level of a reward that has varied is at the top of its range: a task that is done."""
    if reward is None or not reward.count:
        return False
    width = reward.highest - reward.lowest
    return width > 0 and reward.highest - reward.median(n) <= TOP * width


def has_no_gradient(now: Moment) -> bool:
    """Whether the record's gradient is not finite: HF's Trainer then logs a loss of 0, or the mean of those before."""
    norm = now.values.get("grad_norm", 0.0)
    return norm - norm != 0


def start_level(track: Track, pick: Pick = middle, n: int = 5) -> float:
    """Level at which a series began: the median of its first values, or what else is picked of them."""
    return track.start(pick, n)
