"""How many items it takes to see a difference between two models, and which difference a set of items can show.

A difference of two models on the same items varies from item to item by ω² + (σ_A² + σ_B²) ÷ K: what the questions make
of it, and the noise of K samples for each (Miller 2024, arXiv:2411.00640, section 5). Items in clusters count for less,
by the design effect 1 + (m − 1)·ICC (Kish 1965). Quantiles are normal, tests two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from midflight.errors import ConfigError
from midflight.estimate.quantiles import normal_quantile
from midflight.estimate.sequential import Claim, Evidence

ORDERS = 200
"""Orders of the items that a simulation tries."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How the difference between two models varies from item to item.

    Attributes:
        total: Its variance, with as many samples an item as were taken.
        between: ω²: what is left of it with endless samples, 0 at least; None if it cannot be told apart.
        sampling: σ_A² + σ_B²: the variance of one sample of each model around the item's mean; None likewise.
        correlation: Between the scores of both models; None if one of them does not vary.
        design_effect: Variance of the mean ÷ what it would be if items were independent; 1 = they are.
    """

    total: float
    between: float | None = None
    sampling: float | None = None
    correlation: float | None = None
    design_effect: float = 1.0

    def of_items(self, samples: int | None = None) -> float:
        """Variance of the difference an independent item.

        Args:
            samples: Samples an item that are planned; None = as many as were taken.

        Raises:
            ConfigError: If the noise of sampling is not known.
        """
        if samples is None:
            return self.total * self.design_effect
        if self.between is None or self.sampling is None:
            raise ConfigError(
                "the noise of sampling is not known",
                got=f"samples = {samples}",
                hint="it takes evaluations with several samples an item, and a metric that scores each of them",
            )
        return (self.between + self.sampling / samples) * self.design_effect


def spread_of_pairs(
    ours: Sequence[float],
    theirs: Sequence[float],
    samples: Sequence[tuple[Sequence[float], Sequence[float]]] | None = None,
    clusters: Sequence[str] | None = None,
) -> Spread:
    """The spread that two evaluations of the same items show.

    Args:
        ours: Score of each item, the mean over its samples.
        theirs: The same of the other model.
        samples: Scores of each item's samples in both, at least two of each; None = not known.
        clusters: The cluster of each item; None = items are independent.

    Raises:
        ConfigError: If there are fewer than two items.
    """
    if len(ours) < 2:
        raise ConfigError("items that both evaluations have scored", got=len(ours), allowed="at least 2")
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    total = variance(differences)
    between = sampling = None
    if samples is not None:
        noise = [[variance(of[side]) for of in samples] for side in (0, 1)]
        sampling = math.fsum(noise[0] + noise[1]) / len(ours)
        within = [var / len(of[side]) for side in (0, 1) for var, of in zip(noise[side], samples, strict=True)]
        from_sampling = math.fsum(within) / len(ours)
        between = total - from_sampling
        if between < 0:  # no variance is negative: all of what was measured is noise, and there is no more of it
            between, sampling = 0.0, sampling * total / from_sampling
    var_a, var_b = variance(ours), variance(theirs)
    shared = (var_a + var_b - total) / 2
    return Spread(
        total=total,
        between=between,
        sampling=sampling,
        correlation=shared / math.sqrt(var_a * var_b) if var_a > 0 and var_b > 0 else None,
        design_effect=1.0
        if clusters is None
        else design_effect(clusters, intraclass_correlation(differences, clusters)),
    )


def spread_of_one(of_scores: float, correlation: float) -> Spread:
    """The spread if both models have scores of that variance: 2·variance·(1 − correlation)."""
    return Spread(total=2 * of_scores * (1 - correlation), correlation=correlation)


def items_needed(spread: float, detect: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Independent items that show a difference: (z₁₋α⸝₂ + z_power)²·spread ÷ detect², rounded up.

    Args:
        spread: Variance of the difference an item.
        detect: The difference.
        alpha: Error rate, two-sided.
        power: Probability of seeing it.

    >>> items_needed(0.2, 0.08)
    246
    """
    return max(1, math.ceil(_quantiles(alpha, power) ** 2 * spread / detect**2))


def detectable(spread: float, items: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest difference that so many items show: (z₁₋α⸝₂ + z_power)·√(spread ÷ items).

    >>> round(detectable(0.2, 246), 4)
    0.0799
    """
    return _quantiles(alpha, power) * math.sqrt(spread / items)


def _quantiles(alpha: float, power: float) -> float:
    return normal_quantile(1 - alpha / 2) + normal_quantile(power)


def intraclass_correlation(values: Sequence[float], clusters: Sequence[str]) -> float:
    """How alike the members of a cluster are, from the analysis of variance (Donner & Koval 1980); 0 at least."""
    groups: dict[str, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        groups.setdefault(cluster, []).append(value)
    n, count = len(values), len(groups)
    if count < 2 or count == n:
        return 0.0
    mean = math.fsum(values) / n
    means = {cluster: math.fsum(group) / len(group) for cluster, group in groups.items()}
    among = math.fsum(len(group) * (means[c] - mean) ** 2 for c, group in groups.items()) / (count - 1)
    inside = math.fsum((value - means[c]) ** 2 for c, group in groups.items() for value in group) / (n - count)
    size = (n - math.fsum(len(group) ** 2 for group in groups.values()) / n) / (count - 1)
    whole = among + (size - 1) * inside
    return max(0.0, (among - inside) / whole) if whole > 0 else 0.0


def design_effect(clusters: Sequence[str], correlation: float) -> float:
    """1 + (m − 1)·ICC, with m = Σm² ÷ Σm for clusters of unequal size."""
    sizes: dict[str, int] = {}
    for cluster in clusters:
        sizes[cluster] = sizes.get(cluster, 0) + 1
    return 1 + (sum(size * size for size in sizes.values()) / len(clusters) - 1) * correlation


def variance(values: Sequence[float]) -> float:
    """Variance of a sample, with n − 1; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def set_with_mean(sizes: Sequence[float], mean: float) -> list[float] | None:
    """A set of differences of these sizes, with signs that bring its mean next to `mean`; None if they are too small.

    Args:
        sizes: Absolute differences.
        mean: The mean wanted.
    """
    wanted, total = mean * len(sizes), 0.0
    found: list[float] = []
    for size in sorted(sizes, reverse=True):
        found.append(size if total < wanted else -size)
        total += found[-1]
    return found if abs(total - wanted) <= max(sizes, default=0.0) else None


def items_until_decided(
    differences: Sequence[float], claim: Claim, margin: float, *, width: float = 1.0, alpha: float = 0.05, seed: int = 0
) -> int:
    """Items after which half of the orders have decided a claim about this set, one way or the other, by simulation.

    Args:
        differences: Candidate − baseline of each item of the set.
        claim: The claim.
        margin: Its margin.
        width: Largest score − smallest score.
        alpha: Error rate.
        seed: Seed of the orders.
    """
    size, bound = len(differences), margin if claim == "better" else -margin
    random = np.random.Generator(np.random.PCG64(seed))
    scaled = (np.asarray(differences) / width + 1) / 2
    null = (bound / width + 1) / 2
    orders = np.stack([random.permutation(scaled) for _ in range(ORDERS)], axis=1)
    sides = Evidence(null, size).feed(orders), Evidence(1 - null, size).feed(1 - orders)
    decided = np.maximum(*sides) >= -math.log(alpha)
    after = np.where(decided.any(axis=0), decided.argmax(axis=0) + 1, size)
    return int(np.quantile(after, 0.5, method="higher"))
