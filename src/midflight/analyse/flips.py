"""Which items changed: learned and forgotten between two sets of weights, or from checkpoint to checkpoint of a run.

An item counts as solved if its score is in the better half of the metric's range; with several samples an item, if most
of them are right. Metrics without a range know no right and wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from midflight.analyse.evidence import Evidence, StoredEvidence
from midflight.analyse.pairing import partners_of
from midflight.errors import ConfigError
from midflight.records import Estimate, EvalReport
from midflight.store import Store


@dataclass(frozen=True, slots=True)
class Flip:
    """An item that one side solves and the other does not.

    Attributes:
        item: Its id on the candidate's side.
        baseline_item: Its id on the baseline's side.
        learned: True if the candidate solves it, False if it was forgotten.
        candidate: The candidate's score.
        baseline: The baseline's.
    """

    item: str
    baseline_item: str
    learned: bool
    candidate: float
    baseline: float


@dataclass(frozen=True, slots=True)
class FlipPoint:
    """What changed at a checkpoint, among the items that have a score at all checkpoints of the curve.

    Attributes:
        step: Its step.
        solved: Items that are solved.
        learned: Items solved now that were not at the checkpoint before.
        forgotten: Items not solved now that were solved at the checkpoint before.
        ever: Items solved at this or an earlier checkpoint: what `solved` would be if nothing was ever forgotten.
        n: Items.
    """

    step: int
    solved: int
    learned: int
    forgotten: int
    ever: int
    n: int


def flips(candidate: Evidence, baseline: Evidence, metric: str) -> list[Flip]:
    """Items that one side alone solves, sorted by id; those without a score on a side are left out.

    Raises:
        ConfigError: If the metric has no range, or item scores are not kept.
    """
    ours, theirs = _solved(candidate, metric), _solved(baseline, metric)
    partners = partners_of(candidate, baseline)
    pairs = ((id, id if partners is None else partners.get(id, "")) for id in sorted(ours))
    return [
        Flip(id, other, ours[id][1], ours[id][0], theirs[other][0])
        for id, other in pairs
        if other in theirs and ours[id][1] != theirs[other][1]
    ]


def flip_curve(reports: Sequence[EvalReport], store: Store, metric: str) -> list[FlipPoint]:
    """What was learned and forgotten from checkpoint to checkpoint.

    Args:
        reports: Evaluations of one task, of one fingerprint, by step.
        store: Where their scores are.
        metric: A metric with a range.

    Raises:
        ConfigError: If the metric has no range, item scores are not kept, or no item has a score everywhere.
    """
    solved = [_solved(StoredEvidence(report, store), metric) for report in reports]
    common = set.intersection(*map(set, solved)) if solved else set()
    if not common:
        raise ConfigError(f"no item has a score of {metric} at all {len(solved)} checkpoints")
    points, before, ever = [], None, set[str]()
    for report, scores in zip(reports, solved, strict=True):
        now = {id for id in common if scores[id][1]}
        ever |= now
        learned, forgotten = (len(now - before), len(before - now)) if before is not None else (0, 0)
        points.append(FlipPoint(report.progress.step, len(now), learned, forgotten, len(ever), len(common)))
        before = now
    return points


def threshold(estimate: Estimate) -> tuple[float, bool]:
    """The score that parts right from wrong, and whether what is right is above it.

    Raises:
        ConfigError: If the metric has no range.
    """
    low, high = estimate.lowest, estimate.highest
    if low is None or high is None:
        raise ConfigError(f"{estimate.metric} has no range: no item is right or wrong", hint="choose another metric")
    return (low + high) / 2, estimate.higher_is_better is not False


def _solved(evidence: Evidence, metric: str) -> Mapping[str, tuple[float, bool]]:
    """Score of each item, and whether it counts as solved."""
    middle, up = threshold(evidence.report.estimate(metric))
    columns = evidence.scores(metric)
    if not columns.items:
        raise ConfigError(f"{evidence.report.task}: item scores of {metric} are not kept")
    return {
        id: (value, value > middle if up else value < middle)
        for id, value in zip(columns.items, columns.values, strict=True)
        if value is not None
    }
