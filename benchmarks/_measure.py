"""Measures peers beside each other: rounds alternate; medians are printed, and ratios, which noise leaves alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def alternate(contestants: dict[str, Callable[[], float]], rounds: int = 7) -> dict[str, float]:
    """The median figure of each contestant, all of them measured in turn, round by round."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for measure in contestants.values():
        measure()  # warm-up
    for _ in range(rounds):
        for name, measure in contestants.items():
            found[name].append(measure())
    return {name: statistics.median(values) for name, values in found.items()}


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def verdict(what: str, got: float, limit: float, unit: str, at_most: bool = True) -> bool:
    """Prints a figure beside its goal; whether it is met."""
    met = got <= limit if at_most else got >= limit
    bound = "at most" if at_most else "at least"
    print(f"  {'met   ' if met else 'MISSED'} {what}: {got:,.3g} {unit} ({bound} {limit:,.3g})")
    return met
