"""How fast a run goes, and when it will be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from midflight.analyse.diagnose import facts_of_config
from midflight.analyse.names import canonical_names
from midflight.store import Head, RunInfo, Store
from midflight.store.base import Floats, Ints

SHARE = 5
"""The speed is that of the last fifth of the run,"""
SHORTEST, LONGEST = 1_000, 10_000
"""of so many steps at least and at most."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How far and how fast a run is.

    Attributes:
        step: Largest step that was logged; None if nothing was.
        planned_steps: Steps that it is to take; None if its configuration does not say.
        is_estimated: Whether these were computed from the epochs that are planned and the epoch that is reached.
        steps_per_second: Over the last steps of the newest attempt, evaluations between them included; None below two.
        tokens_per_second: As the run logs it, or from its count of tokens; None if it logs neither.
    """

    step: int | None = None
    planned_steps: int | None = None
    is_estimated: bool = False
    steps_per_second: float | None = None
    tokens_per_second: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the planned steps are done at this speed; None if one of the two is not known."""
        if self.step is None or self.planned_steps is None or not self.steps_per_second:
            return None
        return max(0, self.planned_steps - self.step) / self.steps_per_second


def pace_of(store: Store, run: RunInfo, heads: Sequence[Head]) -> Pace:
    """The pace of a run.

    Args:
        store: Where it is.
        run: The run.
        heads: Newest value of each of its series.
    """
    if not heads:
        return Pace(planned_steps=_planned(run, {}, None)[0])
    newest = max(heads, key=lambda head: (head.step, head.num_points))
    named = {canonical: key for key, canonical in canonical_names([head.key for head in heads]).items()}
    by_key = {head.key: head for head in heads}
    planned, is_estimated = _planned(run, named, by_key.get(named.get("epoch", "")))
    low = newest.step - min(LONGEST, max(SHORTEST, newest.step // SHARE))
    began = store.attempts(run.id)[-1][1]
    logged = store.read_points(run.id, newest.key, low)
    steps = _per_second(logged.steps, logged.walls, began)
    tokens: float | None = None
    if "throughput" in named:
        tokens = by_key[named["throughput"]].value
    elif "tokens" in named:
        counted = store.read_points(run.id, named["tokens"], low)
        tokens = _per_second(counted.values, counted.walls, began)
    return Pace(newest.step, planned, is_estimated, steps, tokens)


def planned_steps(run: RunInfo) -> int | None:
    """Steps that a run's configuration says it is to take; None if it does not."""
    return facts_of_config(run.config, {}, {}).planned_steps


def _planned(run: RunInfo, named: Mapping[str, str], epoch: Head | None) -> tuple[int | None, bool]:
    steps, epochs = facts_of_config(run.config, named, {}).planned_steps, run.config.get("num_train_epochs")
    if steps is not None or epoch is None or not isinstance(epochs, int | float):
        return steps, False
    return (round(epoch.step * epochs / epoch.value), True) if epochs > 0 and epoch.value > 0 else (None, False)


def _per_second(counts: Ints | Floats, walls: Floats, began: float) -> float | None:
    """Growth of a count over what the newest attempt logged, by its wall times."""
    counts, walls = counts[walls >= began], walls[walls >= began]
    if len(walls) < 2 or walls[-1] <= walls[0]:
        return None
    return float(counts[-1] - counts[0]) / float(walls[-1] - walls[0])
