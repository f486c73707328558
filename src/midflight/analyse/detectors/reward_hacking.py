"""The reward rises, and what it stands for does not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import PENALTY, Course, Detector, Moment, Track, middle, start_level
from midflight.records import Finding, Severity

LEVEL = 10
"""Records of reward whose median is the level; of a component, whose mean is one value of its course."""
EVALS = 2
"""Held-out evaluations in a row that are below the best."""
FALL = 0.1
"""Fall of a held-out score from its best, as a share of it."""
LENGTH_LEFT = 0.2
"""Share of the length at the start: an answer without its reasoning."""
IN_A_ROW = 3
"""Values after which two verifiers have parted."""
SIGMA = 3.0
"""Standard deviations of single values by which both have risen before, and one of them since."""
GIVEN_BACK = 0.5
"""Share of its gain that the other has lost again."""


class RewardHacking(Detector):
    """Training reward up while held-out scores fall for two evaluations; or while answers shrink to a fifth.

    Or two verifiers of the same answers, which rose together, part: one goes on, one gives back half of its gain.
    """

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("heldout/", "eval_reward", "eval_accuracy", "completion_length", "rewards/")
    algorithms = frozenset({"rl"})
    meaning = "The policy has found what the reward function pays for beside the task."
    advice = "Read the best-paid answers; mend the reward function; add a KL term; go back to before the onset."
    confirm = "What does a second verifier, or a person, say of the best-paid answers?"

    def __init__(self) -> None:
        self._best: dict[str, tuple[float, int]] = {}
        self._below: dict[str, int] = {}
        self._verifiers = _Verifiers()

    def update(self, now: Moment) -> Finding | None:
        """Looks at held-out scores, at lengths, and at verifiers of the same answers."""
        parted = self._verifiers.look(now)
        return self._beside_reward(now) or (self._parted(now, *parted) if parted else None)

    def _beside_reward(self, now: Moment) -> Finding | None:
        reward = now.past.get("reward")
        names = [name for name in now.names if name != "completion_length" and not name.startswith("rewards/")]
        bare = self._is_bare(now)
        if not (names or bare) or reward is None or reward.count < 2 * LEVEL:
            return None
        risen = reward.median(LEVEL) - start_level(reward)
        if risen <= reward.centre_and_spread(2 * LEVEL)[1]:
            return None
        return self._held_out(now, reward, names) or (self._bare(now, reward) if bare else None)

    def _held_out(self, now: Moment, reward: Track, names: Sequence[str]) -> Finding | None:
        for name in names:
            score = now.values[name]
            best, at = self._best.get(name, (float("-inf"), now.step))
            self.enough = True
            if score >= best:
                self._best[name], self._below[name] = (score, now.step), 0
                continue
            self._below[name] += score < best - FALL * abs(best)
            if self._below[name] < EVALS:
                continue
            text = f"{name.removeprefix('heldout/')} {score:.3g} after {best:.3g} at step {at}, while the reward rose"
            return self.finding(now, at, [name, "reward"], text, score=score, best=best, reward=reward.median(LEVEL))
        return None

    def _is_bare(self, now: Moment) -> bool:
        length = now.past.get("completion_length")
        if "completion_length" not in now.values or length is None or length.count < LEVEL:
            return False
        self.enough = True
        bound = LENGTH_LEFT * start_level(length, max, 3)
        return length.last < bound and length.median(LEVEL) < bound

    def _bare(self, now: Moment, reward: Track) -> Finding:
        length = now.past["completion_length"]
        start, level = start_level(length, max, 3), length.median(LEVEL)
        text = f"reward {reward.median(LEVEL):.3g} after {start_level(reward):.3g}, with answers of {level:.3g} tokens"
        return self.finding(
            now, length.step_of_newest(LEVEL), ["reward", "completion_length"], text, "warn", level=level, start=start
        )

    def _parted(self, now: Moment, fallen: str, risen: str) -> Finding:
        one, other = self._verifiers.courses[fallen], self._verifiers.courses[risen]
        at, best = one.steps[one.highest], one.values[one.highest]
        before = other.values[bisect_right(other.steps, at) - 1]
        low, high = middle(one.values[-IN_A_ROW:]), middle(other.values[-IN_A_ROW:])
        names = [now.facts.names.get(name, name.removeprefix("heldout/")) for name in (fallen, risen)]
        text = (
            f"{names[0]} and {names[1]} rose together until step {at}; since then {names[0]} fell from {best:.3g} to "
            f"{low:.3g}, and {names[1]} rose from {before:.3g} to {high:.3g}"
        )
        return self.finding(now, at, [fallen, risen], text, "warn", best=best, low=low, before=before, high=high)


class _Verifiers:
    """Scores that judge the same answers: held-out ones of one task, and components of the training reward."""

    def __init__(self) -> None:
        self.courses: dict[str, Course] = {}
        self._families: dict[str, list[str]] = {}
        self._blocks: dict[str, list[float]] = {}

    def look(self, now: Moment) -> tuple[str, str] | None:
        """One that has fallen and one that has gone on rising, at the first record that shows it."""
        fresh = [name for name in now.names if self._take(now, name)]
        for fallen in fresh:
            course = self.courses[fallen]
            if _has_fallen(course):
                for risen in self._families[_family(fallen)]:
                    if risen != fallen and _has_gone_on(self.courses[risen], course.steps[course.highest]):
                        return fallen, risen
        return None

    def _take(self, now: Moment, name: str) -> bool:
        """Whether its course has a new value: each evaluation, or the mean of some records of training."""
        value, course = now.values[name], self.courses.get(name)
        if course is None:
            course = self.courses[name] = Course()
            if name != "completion_length" and not name.endswith("/std") and not PENALTY.search(name):
                self._families.setdefault(_family(name), []).append(name)
        if value - value != 0 or name not in self._families.get(_family(name), ()):
            return False
        if name.startswith("rewards/"):
            block = self._blocks.setdefault(name, [])
            block.append(value)
            if len(block) < LEVEL:
                return False
            value = sum(block) / LEVEL
            block.clear()
        course.add(now.step, value)
        return True


def _family(name: str) -> str:
    """Verifiers of one family judge the same answers."""
    return name.rpartition("/")[0] or "eval"


def _has_fallen(course: Course) -> bool:
    """Whether it has lost half of a gain that was none of chance."""
    best = course.values[course.highest]
    gain = best - course.values[0]
    if len(course.values) - 1 - course.highest < IN_A_ROW or gain <= SIGMA * course.scatter:
        return False
    return best - middle(course.values[-IN_A_ROW:]) >= GIVEN_BACK * gain


def _has_gone_on(course: Course, since: int) -> bool:
    """Whether it had risen until a step, and has gone on from there."""
    at = bisect_right(course.steps, since)
    before, newest = course.values[:at], course.values[-IN_A_ROW:]
    if not before or len(course.values) - at < IN_A_ROW or min(newest) <= max(before):
        return False
    return min(before[-1] - before[0], middle(newest) - before[-1]) > SIGMA * course.scatter
