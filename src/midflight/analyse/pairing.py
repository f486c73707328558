"""The same items on two sets of weights: which pairs there are, and what their scores say of the difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from midflight.analyse.evidence import Evidence
from midflight.catalog import unknown
from midflight.errors import ConfigError, MetricError, MidflightError
from midflight.estimate.paired import PairedDifference, paired_difference, paired_ratio, pseudo_values
from midflight.metrics import load_metric
from midflight.metrics.base import RatioMetric
from midflight.records import Estimate
from midflight.store import ScoreColumns

PARTS = ("items", "prompt", "grader", "sampling")


@dataclass(frozen=True, slots=True)
class Pairing:
    """Scores of one metric over the items that both sides have.

    Attributes:
        difference: Candidate − baseline; None if there is no pair with scores, and `note` says why.
        candidate: The candidate's value over the pairs, or over all its items where nothing is paired.
        baseline: The baseline's.
        estimates: Both reports' estimates over all of their items, the candidate's first.
        correlation: Of the two sides' scores over the pairs; None where it is not defined.
        only_candidate: Items that have a score on this side alone.
        only_baseline: Items that have a score on that side alone.
        note: What a reader has to know.
        scores: Both sides' scores over the pairs, the candidate's first; of a ratio metric, the pseudo-values.
    """

    difference: PairedDifference | None
    candidate: float | None
    baseline: float | None
    estimates: tuple[Estimate, Estimate]
    correlation: float | None = None
    only_candidate: int = 0
    only_baseline: int = 0
    note: str = ""
    scores: tuple[Sequence[float], Sequence[float]] = ((), ())


def differing_parts(candidate: Evidence, baseline: Evidence) -> list[str]:
    """Parts of the tasks' fingerprints that differ: items, prompt, grader, sampling. Empty = comparable."""
    if candidate.report.task_fingerprint == baseline.report.task_fingerprint:
        return []
    a, b = candidate.report.fingerprint_parts, baseline.report.fingerprint_parts
    differing = [part for part in dict.fromkeys([*PARTS, *a, *b]) if a.get(part) != b.get(part)]
    return differing or ["version"]


def check_comparable(
    candidate: Evidence, baseline: Evidence, *, only_common_items: bool = False, allowed: Collection[str] = ()
) -> list[str]:
    """Refuses to compare what was not asked alike; gives the parts that differ and were allowed to.

    Args:
        candidate: One side.
        baseline: The other.
        only_common_items: Other items are no hindrance: those that both have are compared.
        allowed: Other parts that may differ, because their effect is what the comparison is about.

    Raises:
        ConfigError: If another part differs; says which.
    """
    differing = differing_parts(candidate, baseline)
    refused = [part for part in differing if part not in allowed and not (part == "items" and only_common_items)]
    if refused:
        hint = (
            "compare only the common items"
            if refused == ["items"]
            else f"to measure what that changes, compare across {' and '.join(refused)}"
        )
        raise ConfigError(
            f"task {candidate.report.task!r} was not the same task for both sides: {', '.join(refused)} differ",
            hint=hint,
        )
    return differing


def pair(candidate: Evidence, baseline: Evidence, metric: str, slice: str = "") -> Pairing:
    """Pairs the scores of one metric by item: by id, or by content where the items are not the same.

    Raises:
        UnknownKeyError: If a side has no such metric or slice.
    """
    estimates = (_estimate(candidate, metric, slice), _estimate(baseline, metric, slice))
    a, b = candidate.scores(metric), baseline.scores(metric)
    if not a.items or not b.items:
        return _without_pairs(estimates, "unpaired: item scores are not kept" + _whose(a, b))
    partners = partners_of(candidate, baseline)
    rows, only_a, only_b = _match(a, b, partners, _members(candidate, estimates[0], slice), candidate)
    if not rows:
        return _without_pairs(estimates, "no item has a score on both sides")
    ids, pairs = zip(*rows, strict=True)
    clusters = _clusters(candidate, ids)
    try:
        difference, values, scores = _difference(metric, pairs, clusters, estimates[0])
    except MetricError as error:
        return _without_pairs(estimates, error.message)
    return Pairing(
        difference, *values, estimates, _correlation([(x[0], y[0]) for x, y in pairs]), only_a, only_b,
        "" if partners is None else f"{len(rows)} common items", scores,
    )  # fmt: skip


def partners_of(candidate: Evidence, baseline: Evidence) -> dict[str, str] | None:
    """The baseline's item for each of the candidate's: the one that says the same. None = the same items, by id."""
    if not {"items", "version"} & set(differing_parts(candidate, baseline)):
        return None
    theirs = baseline.contents
    return {id: theirs[content] for content, id in candidate.contents.items() if content in theirs}


def _whose(a: ScoreColumns, b: ScoreColumns) -> str:
    return "" if not a.items and not b.items else " on one side"


def _estimate(evidence: Evidence, metric: str, slice: str) -> Estimate:
    for found in evidence.report.estimates:
        if (found.metric, found.slice) == (metric, slice):
            return found
    if metric not in {e.metric for e in evidence.report.estimates}:
        raise unknown(
            f"metrics of {evidence.report.task}", metric, sorted({e.metric for e in evidence.report.estimates})
        )
    have = sorted({e.slice for e in evidence.report.estimates if e.slice})
    raise unknown(f"slices of {evidence.report.task}", slice, have)


def _without_pairs(estimates: tuple[Estimate, Estimate], note: str) -> Pairing:
    return Pairing(None, estimates[0].value, estimates[1].value, estimates, note=note)


Term = tuple[float, float]
"""Score and weight of an item."""


def _match(
    a: ScoreColumns,
    b: ScoreColumns,
    partners: Mapping[str, str] | None,
    members: Collection[str] | None,
    candidate: Evidence,
) -> tuple[list[tuple[str, tuple[Term, Term]]], int, int]:
    """Scores of both sides by the candidate's item id, sorted; and how many have one on one side alone."""
    terms_a = _terms(a)
    terms_b = _terms(b)
    if members is not None:
        terms_a = {id: term for id, term in terms_a.items() if id in members}
    partner = (lambda id: id) if partners is None else partners.get
    rows = [
        (id, (term, terms_b[other]))
        for id, term in terms_a.items()
        if (other := partner(id)) is not None and other in terms_b
    ]
    wanted_b = len(terms_b) if members is None else _count_members(terms_b, members, partners)
    return rows, len(terms_a) - len(rows), wanted_b - len(rows)


def _count_members(terms: Mapping[str, Term], members: Collection[str], partners: Mapping[str, str] | None) -> int:
    """How many of the baseline's scored items are in the slice, as far as the candidate knows them."""
    others = members if partners is None else {partners[id] for id in members if id in partners}
    return sum(other in terms for other in others)


def _terms(columns: ScoreColumns) -> dict[str, Term]:
    return {
        id: (value, weight)
        for id, value, weight in zip(columns.items, columns.values, columns.weights, strict=True)
        if value is not None
    }


def _members(evidence: Evidence, estimate: Estimate, slice: str) -> set[str] | None:
    """Ids of the items in a slice; None = all."""
    if not slice or estimate.part is None:
        return None
    part = estimate.part
    return {item.id for item in evidence.items.values() if item.slices.get(part.name) == part.value}


def _clusters(evidence: Evidence, ids: Sequence[str]) -> list[str] | None:
    if not evidence.clustered:
        return None
    items = evidence.items
    clusters = [items[id].cluster if id in items else None for id in ids]
    return [cluster if cluster is not None else f"\0{id}" for id, cluster in zip(ids, clusters, strict=True)]


def _difference(
    metric: str, pairs: Sequence[tuple[Term, Term]], clusters: Sequence[str] | None, estimate: Estimate
) -> tuple[PairedDifference, tuple[float, float], tuple[Sequence[float], Sequence[float]]]:
    """The difference over the pairs, both sides' values over them, and both sides' scores."""
    sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if all(weight == 1 for side in sides for _, weight in side):
        values = [score for score, _ in sides[0]], [score for score, _ in sides[1]]
        found = paired_difference(*values, clusters, low=estimate.lowest, high=estimate.highest)
        return found, (math.fsum(values[0]) / len(pairs), math.fsum(values[1]) / len(pairs)), values
    transform, slope = _ratio(metric)
    found = paired_ratio(*sides, clusters, transform=transform, slope=slope)
    values = pseudo_values(sides[0], transform, slope), pseudo_values(sides[1], transform, slope)
    return found, (_ratio_value(sides[0], transform), _ratio_value(sides[1], transform)), values


def _ratio(metric: str) -> tuple[Callable[[float], float], Callable[[float], float]]:
    try:
        loaded = load_metric(metric)
    except MidflightError:
        raise MetricError("unpaired: a ratio metric of the user's cannot be paired after the run") from None
    if not isinstance(loaded, RatioMetric):
        raise MetricError("unpaired: its items have weights, and it is no ratio metric")
    return loaded.transform, loaded.slope


def _ratio_value(terms: Iterable[Term], transform: Callable[[float], float]) -> float:
    terms = list(terms)
    return transform(math.fsum(x for x, _ in terms) / math.fsum(y for _, y in terms))


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's, over the pairs; None where a side does not vary."""
    n = len(pairs)
    means = [math.fsum(pair[side] for pair in pairs) / n for side in (0, 1)]
    centred = [(x - means[0], y - means[1]) for x, y in pairs]
    squares = [math.fsum(pair[side] ** 2 for pair in centred) for side in (0, 1)]
    if min(squares) <= 0 or not all(map(math.isfinite, squares)):
        return None
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in centred) / math.sqrt(squares[0] * squares[1])))
