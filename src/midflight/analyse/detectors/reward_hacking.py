"""The reward rises, and what it stands for does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Track, start_level
from midflight.records import Finding, Severity

LEVEL = 10
"""Records of reward whose median is the level."""
EVALS = 2
"""Held-out evaluations in a row that are below the best."""
FALL = 0.1
"""Fall of a held-out score from its best, as a share of it."""
LENGTH_LEFT = 0.2
"""Share of the length at the start: an answer without its reasoning."""


class RewardHacking(Detector):
    """Training reward up while held-out scores fall for two evaluations; or while answers shrink to a fifth."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("heldout/", "eval_reward", "eval_accuracy", "completion_length")
    algorithms = frozenset({"rl"})
    meaning = "The policy has found what the reward function pays for beside the task."
    advice = "Read the best-paid answers; mend the reward function; add a KL term; go back to before the onset."
    confirm = "What does a second verifier, or a person, say of the best-paid answers?"

    def __init__(self) -> None:
        self._best: dict[str, tuple[float, int]] = {}
        self._below: dict[str, int] = {}

    def update(self, now: Moment) -> Finding | None:
        """Looks at held-out scores, and at lengths."""
        reward = now.past.get("reward")
        names = [name for name in now.names if name != "completion_length"]
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
        bound = LENGTH_LEFT * start_level(length, max, 3)
        return length.last < bound and length.median(LEVEL) < bound

    def _bare(self, now: Moment, reward: Track) -> Finding:
        length = now.past["completion_length"]
        start, level = start_level(length, max, 3), length.median(LEVEL)
        text = f"reward {reward.median(LEVEL):.3g} after {start_level(reward):.3g}, with answers of {level:.3g} tokens"
        return self.finding(
            now, length.step_of_newest(LEVEL), ["reward", "completion_length"], text, "warn", level=level, start=start
        )
