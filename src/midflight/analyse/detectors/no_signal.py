"""Rewards without spread: nothing tells a better answer from a worse one, so that nothing is learned."""

from __future__ import annotations

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

    More records where such were frequent before; never for shares where the reward is at its top.
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

    def update(self, now: Moment) -> Finding | None:
        """Looks at spread and reward."""
        return self._constant(now) or self._without_spread(now)

    def _constant(self, now: Moment) -> Finding | None:
        reward = now.values.get("reward")
        if reward is None or reward - reward != 0:
            return None
        same, self._reward = reward == self._reward, reward
        spread = now.values.get("reward_std", now.values.get("frac_reward_zero_std"))
        none = now.values.get("reward_std") == 0 or now.values.get("frac_reward_zero_std", 0.0) >= 1
        track = now.past["reward"]
        varied = track.highest > track.lowest
        needed = (
            WITHOUT_SPREAD_KNOWN if spread is None else SATURATED if varied and reward == track.highest else IN_A_ROW
        )
        self.enough = self.enough or track.count >= needed
        count = self._same.hold(now.step, same) + 1
        rare = self._silent.hold(now.step, same if spread is None else none)
        if not rare or count < needed or (none and self._silent.count < needed):
            return None
        text = f"reward {reward:.4g} to the digit, without spread, in {count} records in a row"
        metrics = [name for name in self.needs if name in now.values]
        return self.finding(now, self._silent.onset, metrics, text, reward=reward, records=count)

    def _without_spread(self, now: Moment) -> Finding | None:
        track = now.past.get("frac_reward_zero_std")
        reward = now.past.get("reward")
        records, steps = SHARE_OF
        if "frac_reward_zero_std" not in now.values or track is None or track.count < records:
            return None
        count = max(records, -(-steps // now.span))
        if track.count < count:
            return None
        self.enough = True
        shares = track.newest(count)
        mean = sum(shares) / len(shares)
        if mean < SHARE or at_its_top(reward, records):
            return None
        learned = reward is not None and reward.count > records and reward.median(records) > start_level(reward)
        if learned and mean < SHARE_LEARNED:
            return None
        text = f"{mean:.0%} of the groups have no spread, over {count} records"
        first = next(index for index, share in enumerate(shares) if share >= SHARE)
        onset = track.step_of_newest(count - first)
        return self.finding(now, onset, ["frac_reward_zero_std"], text, share=mean)
