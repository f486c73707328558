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
SIGMA = 5.0
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
        self._bare_length: float | None = None
        self._verifiers = _Verifiers()

    def update(self, now: Moment) -> Finding | None:
        """Looks at held-out scores, at lengths, and at verifiers of the same answers."""
        parted = self._verifiers.look(now)
        return self._beside_reward(now) or (self._parted(now, *parted) if parted else None)

    def _beside_reward(self, now: Moment) -> Finding | None:
        reward, names = now.past.get("reward"), self._verifiers.held_out
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
        if self._bare_length is None:  # the start changes no more
            self.enough, self._bare_length = True, LENGTH_LEFT * start_level(length, max, 3)
        return length.last < self._bare_length and length.median(LEVEL) < self._bare_length

    def _bare(self, now: Moment, reward: Track) -> Finding:
        length = now.past["completion_length"]
        start, level = start_level(length, max, 3), length.median(LEVEL)
        text = f"reward {reward.median(LEVEL):.3g} after {start_level(reward):.3g}, with answers of {level:.3g} tokens"
        return self.finding(
            now, length.step_of_newest(LEVEL), ["reward", "completion_length"], text, "warn", level=level, start=start
        )

    def _parted(self, now: Moment, fallen: str, risen: str) -> Finding:
        one, other = self._verifiers.course(fallen), self._verifiers.course(risen)
        at, best = one.steps[one.highest], one.values[one.highest]
        before = other.values[bisect_right(other.steps, at) - 1]
        low, high = middle(one.values[-IN_A_ROW:]), middle(other.values[-IN_A_ROW:])
        names = [now.facts.names.get(name, name.removeprefix("heldout/")) for name in (fallen, risen)]
        text = (
            f"{names[0]} and {names[1]} rose together until step {at}; since then {names[0]} fell from {best:.3g} to "
            f"{low:.3g}, and {names[1]} rose from {before:.3g} to {high:.3g}"
        )
        return self.finding(now, at, [fallen, risen], text, "warn", best=best, low=low, before=before, high=high)


class _Verifier:
    """What judges answers: a held-out score, or a component of the training reward.

    Attributes:
        name: Its canonical name.
        family: Verifiers of one family judge the same answers.
        size: Values of the series whose mean is one of the course: one evaluation, or some records of training.
        seen: Finite values of the series that are in the course.
        course: Its course.
    """

    __slots__ = ("course", "family", "name", "seen", "size")

    def __init__(self, name: str) -> None:
        self.name, self.family = name, name.rpartition("/")[0] or "eval"
        self.size, self.seen = LEVEL if name.startswith("rewards/") else 1, 0
        self.course = Course()


class _Verifiers:
    """All that judge answers of a run, by name.

    Attributes:
        held_out: Held-out scores of the newest record.
    """

    def __init__(self) -> None:
        self.held_out: list[str] = []
        self._known: dict[str, _Verifier] = {}
        self._names: Sequence[str] = ()
        self._present: list[_Verifier] = []

    def course(self, name: str) -> Course:
        return self._known[name].course

    def look(self, now: Moment) -> tuple[str, str] | None:
        """One that has fallen and one that has gone on rising, at the first record that shows it."""
        if now.names is not self._names:  # records of the same series share the list
            self._names = now.names
            self._present = [self._known.setdefault(name, _Verifier(name)) for name in now.names if _judges(name)]
            self.held_out = [one.name for one in self._present if one.size == 1]
        fresh = []
        for one in self._present:
            track = now.past[one.name]
            if track.count % one.size == 0 and track.count > one.seen:
                one.course.add(now.step, sum(track.newest(one.size)) / one.size)
                one.seen = track.count
                fresh.append(one)
        for fallen in fresh:
            if _has_fallen(fallen.course):
                since = fallen.course.steps[fallen.course.highest]
                for other in self._known.values():
                    if other is not fallen and other.family == fallen.family and _has_gone_on(other.course, since):
                        return fallen.name, other.name
        return None


def _judges(name: str) -> bool:
    """Whether a series judges answers; a penalty takes away, and grows with longer ones."""
    if name.startswith("rewards/"):
        return not name.endswith("/std") and PENALTY.search(name) is None
    return name != "completion_length"


def _has_fallen(course: Course) -> bool:
    """Whether it has lost half of a gain that was none of chance."""
    best = course.values[course.highest]
    gain = best - middle(course.values[:IN_A_ROW])
    if len(course.values) - 1 - course.highest < IN_A_ROW or gain <= SIGMA * course.scatter:
        return False
    return best - middle(course.values[-IN_A_ROW:]) >= GIVEN_BACK * gain


def _has_gone_on(course: Course, since: int) -> bool:
    """Whether it had risen until a step, and has gone on from there."""
    at = bisect_right(course.steps, since)
    before, newest = course.values[:at], course.values[-IN_A_ROW:]
    if not before or len(course.values) - at < IN_A_ROW or min(newest) <= max(before):
        return False
    start, then = middle(before[:IN_A_ROW]), middle(before[-IN_A_ROW:])
    return min(then - start, middle(newest) - then) > SIGMA * course.scatter
