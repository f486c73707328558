"""How often the gate errs, and how often it lets a good model through, over drawn and over real items.

Every figure is of the whole judge: scores of two models, a policy, a verdict. A model that just misses a rule may pass,
and one that just meets it may fail, with probability α at most; a rate is missed if it is so high that a gate which
errs with probability α would show it in one of a thousand simulations.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _measure import verdict as told

from midflight.analyse.evidence import Evidence, Side
from midflight.estimate import mean_interval
from midflight.estimate.quantiles import binomial_tail
from midflight.gate import Policy, Rule, judge
from midflight.records import Cost, Estimate, EvalReport, Item, Progress
from midflight.store import ScoreColumns

ALPHA = 0.05
LOOKS = 20
EVERY = "every-checkpoint"
DATA = Path(os.environ.get("MIDFLIGHT_TEST_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")

Scores = np.ndarray


@dataclass(frozen=True)
class Scored(Evidence):
    """Scores that were drawn."""

    columns: ScoreColumns
    families: tuple[str | None, ...]

    def scores(self, metric: str) -> ScoreColumns:
        """Score of each item."""
        return self.columns

    @property
    def items(self) -> dict[str, Item]:
        """Items by id, with their families."""
        pairs = zip(self.columns.items, self.families, strict=True)
        return {id: Item(id, {}, cluster=family) for id, family in pairs}


def evidence(task: str, scores: Scores, who: str, family_size: int = 1) -> Scored:
    """One task's evidence from one score an item."""
    ids = tuple(f"{i:06d}" for i in range(len(scores)))
    families = tuple(f"{i // family_size}" if family_size > 1 else None for i in range(len(scores)))
    values = [float(score) for score in scores]
    found = mean_interval(values, [str(f) for f in families] if family_size > 1 else None, low=0.0, high=1.0)
    estimate = Estimate(
        "score", "", found.value, found.stderr, found.low, found.high, 0.95, len(values), found.clusters, found.method,
        {"ok": len(values)}, higher_is_better=True, lowest=0.0, highest=1.0,
    )  # fmt: skip
    report = EvalReport(
        f"{who}/{task}", task, task, {}, {}, who, "done", Progress(0), [estimate], Cost(), 0, 0.0
    )  # fmt: skip
    return Scored(report, ScoreColumns(ids, tuple(values), (1.0,) * len(values)), families)


def side(who: str, tasks: Sequence[Scores], family_size: int = 1) -> Side:
    """A set of weights with its scores on several tasks."""
    found = {f"task{i}": evidence(f"task{i}", scores, who, family_size) for i, scores in enumerate(tasks)}
    return Side(who, found)


# -- what is drawn -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """Where items come from.

    Attributes:
        name: Its name.
        chances: So many items drawn: the baseline's chance to get each right.
        mean: The mean chance.
        attempts: Attempts at each item, averaged.
        family: Items that are got right or lost together, more often than not.
    """

    name: str
    chances: Callable[[np.random.Generator, int], Scores]
    mean: float
    attempts: int = 1
    family: int = 1

    def scores(self, draw: np.random.Generator, chances: Scores, drop: float) -> Scores:
        """Scores of a model whose mean is so much lower than the baseline's."""
        n, lowered = len(chances), chances * (1 - drop / self.mean)
        luck = draw.random((self.attempts, n))
        if self.family > 1:
            common = np.repeat(draw.random(n // self.family), self.family)
            luck = np.where(draw.random(n) < 0.7, common, luck)
        return (luck < lowered).mean(axis=0)


def beta(draw: np.random.Generator, n: int) -> Scores:
    """Most items are easy or hard, as in benchmarks."""
    return draw.beta(1.6, 0.4, n)


def drawn_anew(name: str, chances: Sequence[float]) -> Population:
    """Real items, drawn with replacement."""
    known = np.array(chances)
    return Population(name, lambda draw, n: draw.choice(known, n), float(known.mean()))


def populations() -> list[Population]:
    """Three that are drawn from a distribution; where the shared data is there, two of real items."""
    found = [
        Population("items", beta, 0.8),
        Population("averages of 4", beta, 0.8, attempts=4),
        Population("families of 5", lambda draw, n: np.repeat(beta(draw, n // 5), 5), 0.8, family=5),
    ]
    if not DATA.is_dir():
        return found
    answered = json.loads((DATA / "samples" / "gsm8k_qwen7b_grpo_k64.json").read_text())["results"]
    rows = [json.loads(line) for line in (DATA / "verdicts" / "triples.jsonl").read_text().splitlines()]
    return [
        *found,
        drawn_anew("GSM8K, Qwen2.5-7B GRPO", [result["n_correct"] / 64 for result in answered]),
        # checkers that err on few of what is right, and on more of what is wrong
        drawn_anew("tables of answer checkers", [0.97 if row["expected"] else 0.75 for row in rows]),
    ]


# -- rates -------------------------------------------------------------------------------------------------------------


def outcomes(
    policy: Policy, population: Population, n: int, drops: Sequence[float], simulations: int, seed: int, looks: int = 1
) -> list[set[str]]:
    """In each simulation, the outcomes of all looks: one task a drop, its checkpoints all worse by that much."""
    draw, found = np.random.default_rng(seed), []
    for _ in range(simulations):
        chances = [population.chances(draw, n) for _ in drops]
        baseline = side("baseline", [population.scores(draw, one, 0.0) for one in chances], population.family)
        seen = set()
        for look in range(1, looks + 1):
            scores = [population.scores(draw, one, drop) for one, drop in zip(chances, drops, strict=True)]
            candidate = side(f"step {look}", scores, population.family)
            seen.add(judge(policy, candidate, baseline, id="", created_at=0.0, look=look).outcome)
        found.append(seen)
    return found


def rate(found: Sequence[set[str]], outcome: str) -> float:
    """Share of the simulations in which a look ended so."""
    return sum(outcome in seen for seen in found) / len(found)


def highest(simulations: int, alpha: float = ALPHA) -> float:
    """The rate that a gate which errs with probability α exceeds in one of a thousand runs of so many simulations."""
    count = next(k for k in range(simulations + 1) if binomial_tail(k, simulations, alpha) < 0.001)
    return count / simulations


def policy(looks: str = "once", tasks: int = 1, **requirement: float) -> Policy:
    """A policy that asks the same of each task."""
    rules = tuple(Rule(task=f"task{i}", metric="score", **requirement) for i in range(tasks))
    return Policy.model_validate({"name": "p", "looks": looks, "alpha": ALPHA, "rules": rules})


@dataclass(frozen=True)
class Case:
    """A way to err, and how often it may happen."""

    what: str
    policy: Policy
    population: Population
    n: int
    drops: tuple[float, ...]
    outcome: str
    looks: int = 1

    def rate(self, simulations: int, seed: int) -> float:
        """How often it happens."""
        return rate(
            outcomes(self.policy, self.population, self.n, self.drops, simulations, seed, self.looks), self.outcome
        )

    def __str__(self) -> str:
        looks = f", {self.looks} looks" if self.looks > 1 else ""
        return f"{self.what}: {self.population.name}, n = {self.n:,}{looks}"


def cases() -> list[Case]:
    """The ways to err."""
    found = []
    for of in populations():
        for n in (200, 1000):
            found += [
                Case("worse by the margin passes", policy(max_drop=0.02), of, n, (0.02,), "pass"),
                Case("equally good fails", policy(max_drop=0.0), of, n, (0.0,), "fail"),
            ]
        better = (-0.05,) * 4
        found += [
            Case("worse by 5 % passes", policy(max_relative_drop=0.05), of, 200, (0.05 * of.mean,), "pass"),
            Case("one of 5 just misses, passes", policy(tasks=5, max_drop=0.02), of, 200, (0.02, *better), "pass"),
            Case("equally good on 5 fails", policy(tasks=5, max_drop=0.0), of, 200, (0.0,) * 5, "fail"),
            Case("worse by the margin passes", policy(EVERY, max_drop=0.02), of, 200, (0.02,), "pass", LOOKS),
            Case("equally good fails", policy(EVERY, max_drop=0.0), of, 200, (0.0,), "fail", LOOKS),
        ]
    items = populations()[0]
    found += [Case("just at the bound passes", policy(at_least=0.8), items, n, (0.0,), "pass") for n in (50, 1000)]
    return found


def main() -> int:
    goals = []
    print("The gate: how often it errs")
    for seed, case in enumerate(cases()):
        simulations = 300 if case.looks > 1 else 1000
        goals.append(told(str(case), case.rate(simulations, seed), highest(simulations), f"of {simulations:,}"))
    print("how often a good model passes, with max_drop = 0.02")
    for what, drop in (("equally good", 0.0), ("better by 2 points", -0.02)):
        for n in (200, 1000, 5000):
            passed = Case(what, policy(max_drop=0.02), populations()[0], n, (drop,), "pass")
            print(f"  {passed.rate(300, n):4.0%}  {passed}")
    return 0 if all(goals) else 1


if __name__ == "__main__":
    sys.exit(main())
