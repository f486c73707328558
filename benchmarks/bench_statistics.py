"""Are the numbers right: error rates and speed of decisions at any look, and coverage of the intervals.

All seeds are fixed. Coverage of shares is exact: a sum over all counts. What is simulated has an error of its own,
which is printed where it matters.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _measure import verdict

from midflight.estimate import mean_interval, ratio_interval, wilson
from midflight.estimate.power import items_needed, items_until_decided, set_with_mean
from midflight.estimate.quantiles import normal_quantile
from midflight.estimate.sequential import SCORES, Evidence

ALPHA = 0.05
SET = 1319
"""Items of GSM8K's test set."""
BAND = (0.935, 0.965)
ORDERS = 4000


def discordant(size: int, up: float, down: float) -> np.ndarray:
    """Candidate − baseline on a set of which these shares are right with one model only."""
    gained, lost = round(size * up), round(size * down)
    return np.array([1.0] * gained + [-1.0] * lost + [0.0] * (size - gained - lost))


def crossings(items: np.ndarray, null: float, every: int, orders: int = ORDERS, seed: int = 0) -> np.ndarray:
    """Items after which each order proves a mean above `null`, with a look after `every` items; size + 1 = never."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(0, orders, 500):  # a part at a time, for the memory
        order = np.stack([random.permutation(items) for _ in range(500)], axis=1)
        proven = Evidence((null + 1) / 2, len(items)).feed((order + 1) / 2)[every - 1 :: every] >= -math.log(ALPHA)
        found.append(np.where(proven.any(axis=0), (proven.argmax(axis=0) + 1) * every, len(items) + 1))
    return np.concatenate(found)


def peeking(items: np.ndarray, every: int, orders: int = ORDERS) -> float:
    """How often a z-test at level 5 %, one-sided, with the same looks says that a mean of 0 is above 0."""
    random, wrong = np.random.default_rng(0), 0
    looks = np.arange(every, len(items) + 1, every)
    for _ in range(orders):
        order = random.permutation(items)
        sums, squares = np.cumsum(order)[looks - 1], np.cumsum(order**2)[looks - 1]
        spread = np.sqrt(np.maximum(squares - sums**2 / looks, 1e-12))
        wrong += bool(np.any((sums > normal_quantile(1 - ALPHA) * spread) & (looks >= 30)))
    return wrong / orders


def error_rates() -> list[bool]:
    """A candidate exactly at the bound must not pass in more than 5 % of the orders."""
    print(f"false passes: {ORDERS:,} orders of a set whose mean lies at the bound, 10 % discordant")
    met = []
    for size, claim, bound in ((500, "better", 0.0), (SET, "better", 0.0), (SET, "not worse by 0.03", -0.03)):
        items = discordant(size, 0.05 + bound / 2, 0.05 - bound / 2)
        at = float(np.mean(items)) + 1e-9  # the share of whole items that is nearest to the bound
        for every in (10, 1):
            wrong = float(np.mean(crossings(items, at, every) <= size))
            met.append(verdict(f"{claim}, {size:,} items, a look every {every}", 100 * wrong, 100 * ALPHA, "%"))
    print(f"  (a z-test that is looked at every 10 items passes in {peeking(discordant(500, 0.05, 0.05), 10):.0%})")
    return met


def speed() -> list[bool]:
    """Items until a decision, beside a two-sided paired test with 80 % power that knows the difference beforehand."""
    met = []
    print(f"items to a decision on {SET:,} items; fixed n: two-sided paired test, alpha 0.05, power 0.8")
    for up, down, bound, claim, most in (
        (0.14, 0.06, 0.0, "better", 60),
        (0.15, 0.05, 0.0, "better", None),
        (0.14, 0.06, -0.03, "not worse by 0.03", 60),
    ):
        after, difference = crossings(discordant(SET, up, down), bound, 1), up - down
        fixed = items_needed(up + down - difference**2, difference)
        corrected = math.ceil(fixed / (1 + (fixed - 1) / SET))
        half, late = np.quantile(after, [0.5, 0.8], method="higher")
        print(
            f"  {up:.0%} won, {down:.0%} lost, {claim}: median {half}, 4 of 5 within {late};"
            f" fixed n {fixed}, {corrected} where corrected for the finite set"
        )
        if most is not None:
            met.append(verdict("median ÷ fixed n", 100 * half / fixed, most, "%"))
    equal = discordant(SET, 0.05, 0.05)
    for margin, most in ((0.02, None), (0.03, 550), (0.05, None)):
        half, late = np.quantile(crossings(equal, -margin, 1), [0.5, 0.8], method="higher")
        fixed = math.ceil((normal_quantile(0.95) + normal_quantile(0.8)) ** 2 * 0.1 / margin**2)
        print(
            f"  equal models, not worse by {margin}: median {half}, 4 of 5 within {late}; fixed n, one-sided, {fixed}"
        )
        if most is not None:
            met.append(verdict("median", half, most, "items"))
    planned = set_with_mean([abs(d) for d in equal], 0.0)
    assert planned is not None
    print(f"  `midflight power` says {items_until_decided(planned, 'not_worse', 0.03)} for a margin of 0.03")
    return met


def sequence_coverage() -> list[bool]:
    """A 95 % confidence sequence has to hold the mean of the set at all looks at once."""
    print(f"confidence sequence of a share on {SET:,} items: all looks at once, {ORDERS:,} orders")
    met = []
    for p in (0.5, 0.9):
        items, random = (np.arange(SET) < round(p * SET)).astype(float), np.random.default_rng(0)
        missed = 0
        for _ in range(0, ORDERS, 500):
            order = np.stack([random.permutation(items) for _ in range(500)], axis=1)
            mean = float(items.mean())
            sides = (
                Evidence(mean + 1e-9, SET, SCORES).feed(order),
                Evidence(1 - mean + 1e-9, SET, SCORES).feed(1 - order),
            )
            missed += int((np.maximum(*sides) >= math.log(40)).any(axis=0).sum())
        met.append(verdict(f"p = {p}: held", 100 * (1 - missed / ORDERS), 95, "%", at_most=False))
    return met


def share_coverage(n: int, p: float) -> tuple[float, float]:
    """Exact coverage of the interval for a share, and how near to 95 % one outcome more or less would bring it."""
    z = normal_quantile(0.975)
    chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)] if n < 1000 else _chances(n, p)
    held = [k for k in range(n + 1) if wilson(k / n, n, z)[0] <= p <= wilson(k / n, n, z)[1]]
    coverage = math.fsum(chances[k] for k in held)
    near = [coverage - chances[held[0]], coverage - chances[held[-1]]]
    near += [coverage + chances[k] for k in (held[0] - 1, held[-1] + 1) if 0 <= k <= n]
    return coverage, min(near, key=lambda other: abs(other - 0.95))


def _chances(n: int, p: float) -> list[float]:
    logs = (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1))
    return [math.exp(log + k * math.log(p) + (n - k) * math.log(1 - p)) for k, log in enumerate(logs)]


def shares() -> list[bool]:
    """Coverage of the interval for shares, which jumps with p: one count more or less is worth some per cent."""
    print("coverage of the 95 % interval of a share (Wilson), exact; beside it, with one count more or less held")
    met = []
    grid = [(30, 0.9), (100, 0.95), (500, 0.95)]
    grid += [(n, p) for n in (30, 100, 300, 1000) for p in (0.5, 0.7, 0.9, 0.95) if (n, p) not in grid]
    for n, p in grid:
        coverage, other = share_coverage(n, p)
        around = np.mean([share_coverage(n, q)[0] for q in np.linspace(p - 0.04, p + 0.04, 17)])
        inside = BAND[0] <= coverage <= BAND[1]
        why = "" if inside else f"  outside {BAND[0]:.1%} to {BAND[1]:.1%}; next to it {other:.2%}"
        print(f"  n = {n:5}, p = {p:.2f}: {coverage:.2%}, mean over p ± 0.04: {around:.2%}{why}")
        met.append(BAND[0] <= around <= BAND[1] and coverage >= 0.925)
    verdict("cells whose mean over p ± 0.04 is inside, and none below 92.5 %", sum(met), len(met), "", at_most=False)
    return met


def clusters() -> list[bool]:
    """Coverage for items in clusters, by simulation: shares from a beta-binomial, ratios from lognormal lengths."""
    print("coverage of the 95 % interval for items in clusters (m a cluster), 2,000 draws (± 1 %)")
    met = []
    random = np.random.default_rng(0)
    for count in (30, 100):
        for m in (2, 5, 10):
            names = [str(i // m) for i in range(count * m)]
            for icc in (0.1, 0.3, 0.5):
                row = [_clustered_share(random, count, m, icc, p, names) for p in (0.5, 0.7, 0.9)]
                row.append(_clustered_ratio(random, count, m, icc, names))
                met += [BAND[0] - 0.01 <= each <= BAND[1] + 0.01 for each in row]
                cells = " ".join(f"{each:.1%}" for each in row)
                print(f"  C = {count:3}, m = {m:2}, ICC = {icc}: shares of .5, .7, .9 and a ratio: {cells}")
    verdict("cells inside the band, within the error of 2,000 draws", sum(met), len(met), "", at_most=False)
    return met


def _clustered_share(random: np.random.Generator, count: int, m: int, icc: float, p: float, names: list[str]) -> float:
    total, held = 1 / icc - 1, 0
    for truth in random.beta(p * total, (1 - p) * total, (2000, count)):
        scores = (random.random((count, m)) < truth[:, None]).ravel().astype(float).tolist()
        found = mean_interval(scores, names, low=0.0, high=1.0)
        held += found.low is not None and found.high is not None and found.low <= p <= found.high
    return held / 2000


def _clustered_ratio(random: np.random.Generator, count: int, m: int, icc: float, names: list[str]) -> float:
    """Nats a token: 2 on average, with a part that the items of a cluster share; lengths differ by a lognormal."""
    held = 0
    for _ in range(2000):
        lengths = np.exp(random.normal(3.0, 0.7, count * m))
        shared = np.repeat(random.normal(0, math.sqrt(icc), count), m)
        nats = 2.0 + 0.5 * (shared + random.normal(0, math.sqrt(1 - icc), count * m))
        found = ratio_interval((nats * lengths).tolist(), lengths.tolist(), names)
        assert found is not None
        held += found.low is not None and found.high is not None and found.low <= 2.0 <= found.high
    return held / 2000


def main() -> int:
    met = [*error_rates(), *speed(), *sequence_coverage(), *shares(), *clusters()]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
