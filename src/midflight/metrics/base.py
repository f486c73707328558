"""What a metric is. Every kind of metric is stored, plotted, compared and gated alike.

BaseMetric     one number from all predictions and labels; all that a user has to write (bootstrap error)
SampleMetric   a score for each sample, averaged: first over an item's samples, then over items
GroupMetric    a score for an item from the correctness of its n samples (pass@k, maj@k, …)
RatioMetric    a sum over a sum, such as perplexity (delta-method error)
CostMetric     what the evaluation took, such as tokens a second (no error: it is measured, not sampled)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from midflight.errors import MetricError, MidflightError
from midflight.records import SCORED, Cost, Item, Output, Sample, Score, State


class BaseMetric:
    """A number that tells how good a model is. A subclass with nothing but `compute` is a full citizen.

    Attributes:
        key: Name under which it is stored; the file's name for those in this folder.
        higher_is_better: Direction; None = neither.
        unit: Unit of the value, empty for a pure number.
        low: Smallest value that it can take; None = no bound.
        high: Largest.
        version: Enters the task's fingerprint; raise it when the same outputs get other scores.
        needs: Output fields that the engine has to provide, such as ``entropy``.
    """

    key: str = ""
    higher_is_better: ClassVar[bool | None] = True
    unit: ClassVar[str] = ""
    low: ClassVar[float | None] = None
    high: ClassVar[float | None] = None
    version: ClassVar[str] = "1"
    needs: ClassVar[frozenset[str]] = frozenset()

    def compute(self, predictions: Sequence[Any], labels: Sequence[Any]) -> float:
        """The value over all items.

        Args:
            predictions: What the model answered: texts ("" if none could be read), indices of choices, or margins.
            labels: What is right, in the same order.

        Raises:
            MetricError: If it is a metric that scores items, and not the set of them.
        """
        raise MetricError(f"{self.key or type(self).__name__} computes nothing over a whole set")


@dataclass(frozen=True, slots=True)
class Grade:
    """A metric's verdict on one sample.

    Attributes:
        value: Its score; None = none.
        state: How the sample ended, where the metric knows better than the task; None = as the task says.
        note: Why.
        answer: The answer in a form in which equal ones are equal texts, for voting; None = the prediction's text.
    """

    value: float | None
    state: State | None = None
    note: str = ""
    answer: str | None = None


def raised(what: str, error: Exception) -> str:
    """What a metric's code raised, as the reason why there is no score."""
    return error.message if isinstance(error, MidflightError) else f"{what} raised {type(error).__name__}: {error}"


def as_number(value: Any) -> float:
    """A score as a float; NumPy's and torch's scalars are numbers, texts are none.

    Raises:
        TypeError: If it is no number.
    """
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, int | float):
        raise TypeError(f"a score must be a number, not {type(value).__name__}")
    return float(number)


class ItemMetric(BaseMetric, ABC):
    """Base of metrics that score items one by one."""

    @abstractmethod
    def scores(self, items: Sequence[Sequence[Sample]]) -> list[Score]:
        """A score for each item.

        Args:
            items: The samples of each item.
        """


class SampleMetric(ItemMetric):
    """A score for each sample; an item's score is the mean over its samples (avg@n)."""

    def grade(self, sample: Sample) -> Grade | float | None:
        """The score of one sample that the model answered; None = it has none. Write this, or `grades`."""
        raise MetricError(f"{self.key or type(self).__name__} has neither grade nor grades")

    def grades(self, samples: Sequence[Sample]) -> list[Grade]:
        """Scores of many samples; override it where they can be had together more cheaply."""
        return [self._graded(sample) for sample in samples]

    def _graded(self, sample: Sample) -> Grade:
        try:
            found = self.grade(sample)
        except Exception as error:  # user code: what it cannot grade is an error, and costs no other sample
            return Grade(None, "error", raised("grade", error))
        return found if isinstance(found, Grade) else Grade(found)

    def grade_items(self, items: Sequence[Sequence[Sample]]) -> list[list[Grade]]:
        """A grade for each sample of each item, with its final state; only what the model answered is graded."""
        asked = [sample for samples in items for sample in samples if sample.state in SCORED]
        found = self.grades(asked)
        if len(found) != len(asked):
            raise MetricError(f"grades gave {len(found)} grades for {len(asked)} samples")
        graded = iter(found)
        return [
            [_settled(next(graded), sample) if sample.state in SCORED else _ungraded(sample) for sample in samples]
            for samples in items
        ]

    def scores(self, items: Sequence[Sequence[Sample]]) -> list[Score]:
        """The mean over each item's samples; an item with a sample that has no score has none."""
        return self.scores_of(self.grade_items(items), items)

    def scores_of(self, graded: Sequence[Sequence[Grade]], items: Sequence[Sequence[Sample]]) -> list[Score]:
        """Scores from grades."""
        return [
            _joint(self.key, grades, samples, partial(_mean_value, grades))
            for grades, samples in zip(graded, items, strict=True)
        ]

    def compute(self, predictions: Sequence[Any], labels: Sequence[Any]) -> float:
        """The mean score of predictions against labels, without a model."""
        items = [
            [Sample(Item(str(index), {}, label), 0, (Output(str(index), text=str(prediction)),), prediction)]
            for index, (prediction, label) in enumerate(zip(predictions, labels, strict=True))
        ]
        values = [score.value for score in self.scores(items) if score.value is not None]
        if not values:
            raise MetricError(f"{self.key or type(self).__name__}: nothing to score", got=f"{len(items)} predictions")
        return sum(values) / len(values)


def _settled(grade: Grade, sample: Sample) -> Grade:
    """A grade with its final state: a value that is missing or no number is an error, not a wrong answer."""
    state = grade.state or sample.state
    if state not in SCORED:
        return replace(grade, value=None, state=state)
    if grade.value is None:
        return replace(grade, state="error", note=grade.note or "the score is None")
    try:
        value = as_number(grade.value)
    except (TypeError, ValueError) as error:
        return replace(grade, value=None, state="error", note=str(error))
    if math.isnan(value):
        return replace(grade, value=None, state="error", note=grade.note or "the score is NaN")
    return replace(grade, value=value, state=state, note=grade.note or sample.note)


def _ungraded(sample: Sample, reason: str = "") -> Grade:
    """The grade of a sample without an answer, or, with a reason, of one that could not be graded."""
    return Grade(None, "error", reason) if sample.state in SCORED else Grade(None, sample.state, sample.note)


def failed_grades(items: Sequence[Sequence[Sample]], reason: str) -> list[list[Grade]]:
    """Grades of a metric that failed on all samples at once."""
    return [[_ungraded(sample, reason) for sample in samples] for samples in items]


def _joint(key: str, grades: Sequence[Grade], samples: Sequence[Sample], value: Callable[[], float]) -> Score:
    """The score of an item from the grades of its samples."""
    values = tuple(grade.value for grade in grades)
    lost = next((grade for grade in grades if grade.value is None), None)
    if lost is not None:
        return Score(samples[0].item.id, key, None, state=lost.state or "error", note=lost.note, samples=values)
    try:
        score = as_number(value())
    except Exception as error:  # user code: an item that it cannot score is an error, and costs no other
        return Score(samples[0].item.id, key, None, state="error", note=raised("score_group", error), samples=values)
    if math.isnan(score):
        return Score(samples[0].item.id, key, None, state="error", note="the score is NaN", samples=values)
    states = [grade.state or "ok" for grade in grades]
    return Score(samples[0].item.id, key, score, state=joint_state(states), samples=values)


def failed_scores(key: str, items: Sequence[Sequence[Sample]], reason: str) -> list[Score]:
    """Scores of a metric that failed on all items at once."""
    return [
        _joint(key, grades, samples, partial(_mean_value, grades))
        for grades, samples in zip(failed_grades(items, reason), items, strict=True)
    ]


def joint_state(states: Sequence[State]) -> State:
    """The state of an item whose samples all have a score: `ok` if one of them is."""
    order: tuple[State, ...] = ("ok", "truncated", "unparsed")
    return next(state for state in order if state in states)


class GroupMetric(ItemMetric):
    """A score from the correctness of an item's samples.

    Args:
        k: The number in its key: ``pass@8``.

    Attributes:
        grader: The metric that says which samples are correct; bound when the task's metrics are loaded.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise MetricError(f"{type(self).__name__}: k", got=k, allowed="a number from 1")
        self.k = k
        self.grader: SampleMetric | None = None

    @property
    def min_samples(self) -> int:
        """Samples an item that it cannot do without."""
        return self.k

    @abstractmethod
    def score_group(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        """The score of one item.

        Args:
            grades: The grader's verdict on each sample; all have a value.
            samples: The samples.
        """

    def scores(self, items: Sequence[Sequence[Sample]]) -> list[Score]:
        """A score for each item all of whose samples are graded."""
        if self.grader is None:
            raise MetricError(
                f"{self.key}: no metric beside it says which samples are correct", hint="name one, e.g. exact_match"
            )
        return self.scores_of(self.grader.grade_items(items), items)

    def scores_of(self, graded: Sequence[Sequence[Grade]], items: Sequence[Sequence[Sample]]) -> list[Score]:
        """Scores from the grader's grades."""
        return [
            replace(_joint(self.key, grades, samples, partial(self.score_group, grades, samples)), samples=())
            for grades, samples in zip(graded, items, strict=True)
        ]


def _mean_value(grades: Sequence[Grade]) -> float:
    return sum(grade.value for grade in grades if grade.value is not None) / len(grades)


def num_correct(grades: Sequence[Grade]) -> int:
    """Grades with full marks, whatever partial credit a grader gives."""
    return sum(grade.value is not None and grade.value >= 1.0 - 1e-9 for grade in grades)


class RatioMetric(ItemMetric):
    """A sum over a sum: each item adds to both, and the whole is not the mean of the items' ratios."""

    @abstractmethod
    def terms(self, sample: Sample) -> tuple[float, float] | None:
        """What a sample adds to numerator and denominator; None = it has neither."""

    def transform(self, ratio: float) -> float:
        """The value from the ratio; increasing."""
        return ratio

    def slope(self, ratio: float) -> float:
        """Derivative of `transform`, for the delta method."""
        return 1.0

    def scores(self, items: Sequence[Sequence[Sample]]) -> list[Score]:
        """Numerator (`value`) and denominator (`weight`) of each item."""
        return [self._score(samples) for samples in items]

    def _score(self, samples: Sequence[Sample]) -> Score:
        item, states = samples[0].item, [sample.state for sample in samples]
        lost = next((sample for sample in samples if sample.state not in SCORED), None)
        if lost is not None:
            return Score(item.id, self.key, None, state=lost.state, note=lost.note)
        try:
            terms = [self.terms(sample) for sample in samples]
            known = [(as_number(term[0]), as_number(term[1])) for term in terms if term is not None]
        except Exception as error:  # user code: an item that it cannot measure is an error, and costs no other
            return Score(item.id, self.key, None, state="error", note=raised("terms", error))
        if len(known) < len(terms):
            return Score(item.id, self.key, None, state="error", note="nothing to measure")
        top, bottom = (sum(term[i] for term in known) for i in (0, 1))
        if math.isnan(top) or math.isnan(bottom):
            return Score(item.id, self.key, None, state="error", note="the score is NaN")
        return Score(item.id, self.key, top, weight=bottom, state=joint_state(states))


class CostMetric(BaseMetric, ABC):
    """What an evaluation took."""

    @abstractmethod
    def measure(self, cost: Cost) -> float | None:
        """The value; None if it is not known."""
