"""Ends an evaluation as soon as a claim about a baseline is decided: which items are asked when, and what that says.

    rule + baseline's scores ──► Looks: items in chunks ──► scores of each chunk ──► decided?
    config  store                       random order        pipeline                 report

The order of the items is drawn from the rule's seed, so that what was seen is a random part of the set. Decisions
depend on the scores in that order only: not on the chunks, the order in which outputs come in, or interruptions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from midflight.analyse.evidence import reports_of
from midflight.config import Config
from midflight.errors import ConfigError, MetricError, shorten
from midflight.estimate.sequential import METHOD, Claim, SequentialTest, confidence_sequence
from midflight.metrics import BaseMetric, ItemMetric, RatioMetric
from midflight.records import Decided, Estimate, EvalReport, Item, Progress, Score
from midflight.run import Run
from midflight.store import Store
from midflight.tasks import Task

START = "start"
"""Baseline of a rule: the first evaluation of the same run."""


class SequentialRule(Config):
    """When an evaluation may end early: as soon as a claim about candidate − baseline is decided, either way.

    The claim is about the task's own set of items with the answers that the two models gave, in the metric's good
    direction; not about other questions, or about answers that would be sampled anew.

    Attributes:
        task: Name of the task.
        metric: A metric that scores items between two bounds; None = the task's first.
        baseline: An evaluation of the same task in the store: ``RUN`` (its last one), ``RUN@STEP``, ``RUN@first``,
            ``PROJECT/RUN@STEP``, or ``start``: the first one of the same run.
        margin: Difference that is tolerated (`not_worse`) or asked for (`better`), in the unit of the metric.
        claim: ``not_worse``: the mean difference is at least −margin; ``better``: it is above margin.
        alpha: Rate at which either decision may be wrong.
        look: Items that are asked at once; after each such chunk the evaluation may end.
        seed: Seed of the order in which items are asked.
    """

    task: str
    metric: str | None = None
    baseline: str = START
    margin: float = Field(ge=0, allow_inf_nan=False)
    claim: Claim = "not_worse"
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    look: int = Field(default=50, ge=1)
    seed: int = Field(default=0, ge=0)


@dataclass(frozen=True)
class Baseline:
    """What is compared with.

    Attributes:
        label: ``project/run@step``.
        evaluation: Id of its evaluation.
        scores: Its score of each item; None where it has none.
    """

    label: str
    evaluation: str
    scores: Mapping[str, float | None]


class Looks:
    """An evaluation of one task that its rule may end.

    Args:
        rule: The rule.
        items: All items of the task.
        metric: What the rule is about.
        baseline: What it compares with.
    """

    def __init__(self, rule: SequentialRule, items: Sequence[Item], metric: ItemMetric, baseline: Baseline) -> None:
        self.rule, self.metric, self.baseline = rule, metric, baseline
        assert metric.low is not None
        assert metric.high is not None
        self._low, self._high = metric.low, metric.high
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._test = SequentialTest(rule.claim, rule.margin, len(items), width=self._high - self._low, alpha=rule.alpha)
        order = sorted(items, key=lambda item: item.id)
        random.Random(f"order of the items:{rule.seed}").shuffle(order)
        self.chunks = [order[start : start + rule.look] for start in range(0, len(order), rule.look)]
        """All items, in the order in which they are asked."""
        self.skipped: frozenset[str] = frozenset()
        """Ids of items that are not asked because of the decision."""
        self._seen: list[Score] = []  # in that order, without a gap
        self._gap = False

    @property
    def over(self) -> bool:
        """Whether the claim is decided."""
        return self._test.outcome != "undecided"

    def look(self, scores: Sequence[Score]) -> None:
        """Takes in the scores of the next chunk, up to the first item that was not asked, e.g. for want of time.

        Raises:
            MetricError: If a score is outside the metric's bounds.
        """
        new: list[Score] = []
        for score in scores:
            self._gap = self._gap or score.state == "not_run"
            if not self._gap:
                new.append(score)
        ends = [self._difference(score) for score in new]
        self._seen += new
        self._test.feed([low for low, _ in ends], [high for _, high in ends])

    def _difference(self, score: Score) -> tuple[float, float]:
        """Candidate − baseline, in the metric's good direction: the smallest and the largest that it can be."""
        if score.value is not None and not self._low <= score.value <= self._high:
            allowed = f"{self._low:g} to {self._high:g}, as the metric says"
            raise MetricError(f"{self.metric.key}: a score", got=score.value, allowed=allowed)
        before = self.baseline.scores.get(score.item_id)
        ours = (self._low, self._high) if score.value is None else (score.value, score.value)
        theirs = (self._low, self._high) if before is None else (before, before)
        low, high = sorted((self._sign * (ours[0] - theirs[1]), self._sign * (ours[1] - theirs[0])))
        return low, high

    def skip(self, items: Iterable[str]) -> None:
        """Notes the items that are not asked any more."""
        self.skipped = frozenset(items)

    # -- what it says ------------------------------------------------------------------------------------------------

    def made(self, decided: Decided) -> bool:
        """Whether a decision is one of this rule."""
        rule = self.rule
        return (self.metric.key, rule.claim, rule.margin, rule.alpha, rule.seed, self.baseline.evaluation) == (
            decided.metric,
            decided.claim,
            decided.margin,
            decided.alpha,
            decided.seed,
            decided.evaluation,
        )

    @property
    def note(self) -> str:
        """Why items were not asked."""
        return f"decided early: {self._test.outcome} after {self._test.n} of {self._test.size} items"

    def decided(self) -> Decided:
        """What the rule says."""
        test, rule, known = self._test, self.rule, self.baseline.scores
        pairs = [(score.value, known.get(score.item_id)) for score in self._seen[: test.n]]
        differences = [ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None]
        ends = sorted(self._sign * end for end in test.interval())
        return Decided(
            metric=self.metric.key,
            claim=rule.claim,
            margin=rule.margin,
            alpha=rule.alpha,
            seed=rule.seed,
            baseline=self.baseline.label,
            evaluation=self.baseline.evaluation,
            outcome=test.outcome,
            early=bool(self.skipped),
            n=test.n,
            size=test.size,
            e_value=math.exp(min(test.log_e, 700.0)) if test.log_e < math.inf else math.inf,
            difference=math.fsum(differences) / len(differences) if differences else None,
            ci_low=ends[0],
            ci_high=ends[1],
            level=test.level,
            method=METHOD,
        )

    def with_interval(self, estimates: Sequence[Estimate]) -> list[Estimate]:
        """The estimates; where items were skipped, that of the rule's metric with an interval for the whole set.

        It is valid although the evaluation ended because of what was seen; those of the other metrics are not.
        """
        if not self.skipped:
            return list(estimates)
        return [
            self._estimate(estimate) if (estimate.metric, estimate.slice) == (self.metric.key, "") else estimate
            for estimate in estimates
        ]

    def _estimate(self, estimate: Estimate) -> Estimate:
        width = self._high - self._low
        known = [(s.value, s.value) if s.value is not None else (self._low, self._high) for s in self._seen]
        lows, highs = ([(ends[i] - self._low) / width for ends in known] for i in (0, 1))
        ends = confidence_sequence(lows, highs, estimate.n, level=estimate.level)
        low, high = (self._low + width * end for end in ends)
        method = f"{METHOD}, {len(self._seen)} of {estimate.n} items"
        return replace(estimate, ci_low=low, ci_high=high, method=method)


def looks_of(
    rule: SequentialRule | None,
    task: Task,
    metrics: Sequence[BaseMetric],
    parts: Mapping[str, str],
    run: Run | None,
    progress: Progress | None = None,
) -> Looks | None:
    """What a rule makes of an evaluation; None without a rule, or where these weights are the start of their run.

    Args:
        rule: The rule.
        task: The task.
        metrics: The metrics of the evaluation.
        parts: Parts of the task's fingerprint.
        run: The run that the evaluation belongs to.
        progress: Where training stands; None = not known yet, the rule is only checked.

    Raises:
        ConfigError: If the rule is for another task or cannot work with its metric, or its baseline is not there,
            is not whole, or was asked something else.
    """
    if rule is None:
        return None
    if rule.task != task.name:
        raise ConfigError("a rule for another task", got=rule.task, allowed=task.name)
    if run is None or not run.enabled:
        raise ConfigError(f"the rule for {task.name!r} needs a run: the scores of its baseline are in the store")
    metric = _metric(rule, task, metrics)
    found = _baseline(rule, task, parts, run, None if progress is None else progress.step)
    if found is None:
        return None
    label, report = found
    return Looks(rule, task.items, metric, Baseline(label, report.id, _scores(run.store, report, metric.key, label)))


def _metric(rule: SequentialRule, task: Task, metrics: Sequence[BaseMetric]) -> ItemMetric:
    """The metric of a rule, if its items have scores between two bounds and a good direction."""
    key = rule.metric or metrics[0].key
    metric = next((metric for metric in metrics if metric.key == key), None)
    if metric is None:
        names = ", ".join(one.key for one in metrics if isinstance(one, ItemMetric))
        raise ConfigError(f"the rule for {task.name!r}: metric", got=key, allowed=names)
    allowed = "one that scores items between two bounds and says whether higher is better, e.g. exact_match"
    if not isinstance(metric, ItemMetric) or isinstance(metric, RatioMetric) or metric.higher_is_better is None:
        raise ConfigError(f"the rule for {task.name!r}: metric", got=key, allowed=allowed)
    if metric.low is None or metric.high is None or not 0 < metric.high - metric.low < math.inf:
        raise ConfigError(f"the rule for {task.name!r}: metric", got=key, allowed=allowed)
    if rule.margin >= metric.high - metric.low:
        width = f"{metric.high - metric.low:g}, the range of {key}"
        raise ConfigError(f"the rule for {task.name!r}: margin", got=rule.margin, allowed=f"less than {width}")
    return metric


def _baseline(
    rule: SequentialRule, task: Task, parts: Mapping[str, str], run: Run, step: int | None
) -> tuple[str, EvalReport] | None:
    """The baseline and what it is called; None where these weights are the start themselves."""
    if rule.baseline == START:
        its = run.info
        reports = [r for r in run.store.reports(its.id, task.name) if step is None or r.progress.step < step]
        if not reports:
            return None
    else:
        its, found = reports_of(run.store, rule.baseline)
        reports = [r for r in found if r.task == task.name and (its.id != run.id or r.progress.step != step)]
        if not reports:
            tasks = ", ".join(sorted({report.task for report in found}))
            raise ConfigError(
                f"the baseline {shorten(rule.baseline)!r} has no other evaluation of {task.name!r}",
                hint=f"it has {shorten(tasks)}",
            )
    same = [report for report in reports if report.fingerprint_parts == parts]
    what = f"the baseline {shorten(rule.baseline)!r} of {task.name!r}"
    if not same:
        had = reports[-1].fingerprint_parts
        differing = ", ".join(name for name in parts if had.get(name) != parts[name])
        raise ConfigError(f"{what} cannot be compared: not the same {differing}", hint="evaluate it on this task first")
    whole = [report for report in same if report.decided is None or not report.decided.early]
    if not whole:
        raise ConfigError(f"{what} was itself ended early", hint="evaluate it without a rule first")
    first = min(whole, key=lambda r: (r.progress.step, -r.started_at))
    chosen = first if rule.baseline == START else max(whole, key=lambda r: (r.progress.step, r.started_at))
    return f"{its.project}/{its.name}@{chosen.progress.step}", chosen


def _scores(store: Store, report: EvalReport, metric: str, label: str) -> dict[str, float | None]:
    scores = {score.item_id: score.value for score in store.scores(report.id, metric)}
    if not scores:
        raise ConfigError(f"the baseline {shorten(label)!r} has no scores of {metric!r}")
    return scores


def is_answer(report: EvalReport, looks: Looks | None) -> bool:
    """Whether a finished report is what is asked for: with this rule's decision, or whole if there is no rule."""
    if looks is None:
        return report.decided is None or not report.decided.early
    return report.decided is not None and looks.made(report.decided)
