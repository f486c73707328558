"""Rewards without spread: nothing tells a better answer from a worse one, so that nothing is learned."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Chance, Detector, Moment, Streak, at_its_top, start_level
from midflight.records import Finding, Severity

IN_A_ROW = 5
"""Records with one and the same reward and no spread."""
SATURATED = 20
"""The same where the reward is the highest there was: every answer may be right for a while."""
WITHOUT_SPREAD_KNOWN = 12
"""The same where only the mean reward is logged."""
SHARE = 0.8
"""Mean share of groups without spread, over the last records, from which on batches are wasted."""
SHARE_LEARNED = 0.9
"""The same where the reward has risen: groups may be all right."""
SHARE_OF = (10, 30)
"""Records, and steps, over which it is the mean: a step may have a single group."""


class NoSignal(Detector):
    """Constant reward without spread for five records, or four fifths of all groups without spread over thirty steps.

    More records where such were frequent before; never for shares where the reward is at its top. Where groups are not
    logged, a record without spread counts as one, and a mean reward at exactly its lowest as a warning.
    """

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("reward", "reward_std", "frac_reward_zero_std")
    algorithms = frozenset({"rl"})
    meaning = "Advantages are 0: the compute goes into answers that teach nothing."
    advice = (
        "Read some answers with their rewards. All wrong: easier prompts, a reward with degrees, a better start; all "
        "right: harder prompts; all the same: a higher temperature, larger groups, a reward function that works."
    )
    confirm = "Split the groups into all-right and all-wrong. Does the reward function ever give two values?"

    def __init__(self) -> None:
        self._silent, self._same = Chance(IN_A_ROW), Streak()
        self._reward: float | None = None
        self._shares: deque[float] = deque(maxlen=SHARE_OF[1])
        self._lowest = math.inf

    def update(self, now: Moment) -> Finding | None:
        """Looks at spread and reward."""
        values = now.values
        reward, spread, share = values.get("reward"), values.get("reward_std"), values.get("frac_reward_zero_std")
        if share is None:
            share = self._share(reward, spread)
        if share is not None:
            self._shares.append(share)
        found = None
        if reward is not None and reward - reward == 0:
            found = self._constant(now, reward, spread, values.get("frac_reward_zero_std"))
        return found or (self._without_spread(now) if share is not None and share >= SHARE else None)

    def _share(self, reward: float | None, spread: float | None) -> float | None:
        """Share of groups without spread, all or none, where it is not logged."""
        if spread is not None:
            return float(spread == 0)
        if reward is None:
            return None
        if reward < self._lowest:  # all before stood higher
            self._lowest = reward
            self._shares = deque([0.0] * len(self._shares), maxlen=SHARE_OF[1])
        return float(reward == self._lowest)

    def _constant(self, now: Moment, reward: float, spread: float | None, share: float | None) -> Finding | None:
        same, self._reward = reward == self._reward, reward
        known = spread is not None or share is not None
        none = spread == 0 or (share is not None and share >= 1)
        count = self._same.hold(now.step, same) + 1
        rare = self._silent.hold(now.step, none if known else same)
        if self.enough and not rare:
            return None
        track = now.past["reward"]
        varied = track.highest > track.lowest
        needed = WITHOUT_SPREAD_KNOWN if not known else SATURATED if varied and reward == track.highest else IN_A_ROW
        self.enough = self.enough or track.count >= needed
        if not rare or count < needed or (none and self._silent.count < needed):
            return None
        text = f"reward {reward:.4g} to the digit, without spread, in {count} records in a row"
        metrics = [name for name in self.needs if name in now.values]
        return self.finding(now, self._silent.onset, metrics, text, reward=reward, records=count)

    def _without_spread(self, now: Moment) -> Finding | None:
        records, steps = SHARE_OF
        count = max(records, -(-steps // now.span))
        if len(self._shares) < count:
            return None
        self.enough = True
        shares = list(self._shares)[-count:]
        mean = sum(shares) / count
        reward = now.past.get("reward")
        if mean < SHARE or at_its_top(reward, records):
            return None
        learned = reward is not None and reward.count > records and reward.median(records) > start_level(reward)
        if learned and mean < SHARE_LEARNED:
            return None
        first = next(index for index, share in enumerate(shares) if share >= SHARE)
        name = next(name for name in reversed(self.needs) if name in now.values)
        text = f"{mean:.0%} of the groups have no spread, over {count} records"
        severity: Severity = self.severity
        if name == "reward":
            severity, text = (
                "warn",
                f"reward {now.values[name]:.4g}, the lowest there is, in {mean:.0%} of {count} records",
            )
        onset = now.past[name].step_of_newest(count - first)
        return self.finding(now, onset, [name], text, severity, share=mean)
