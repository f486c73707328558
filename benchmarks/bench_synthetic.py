"""How well detectors do on synthetic logs of other sizes, units, intervals and noise than the labelled real ones.

    python benchmarks/bench_synthetic.py [--healthy 200] [--ill 40] [--seed 0]

Healthy runs of each family must stay silent; a fault of each kind must be found, after it began and before it is old.
A reward whose groups have no spread, a loss that stands still, are true of some healthy runs: those count neither way.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import numpy as np
from _faults import FAULTS, ill
from _measure import verdict
from _synthetic import FAMILIES, Log

from midflight.records import Finding

REPORTED = {"memorisation", "wrong_best"}
"""Lines of a report, and no alarms."""
LIMITS = {"pretrain": 1e-4, "sft": 1e-3, "preference": 1e-3, "rl": 1e-3}
"""False alarms a record."""


def alarms_of(log: Log, kind: str = "") -> list[Finding]:
    """What was noticed and is not listed as true of it; lines of a report only if they are what is looked for."""
    silent = REPORTED - {kind} | log.also
    return [one for one in log.diagnose().findings if one.kind not in silent]


def healthy(family: str, runs: int, seed: int) -> bool:
    """Prints the false alarms of a family; whether they are few enough."""
    false: Counter[str] = Counter()
    notes = records = bad = 0
    for number in range(runs):
        log = FAMILIES[family](np.random.default_rng([seed, number, len(family)]))
        alarms = alarms_of(log, "wrong_best")
        notes += any(one.kind == "wrong_best" for one in alarms)
        alarms = [one for one in alarms if one.kind not in REPORTED]
        false.update(one.kind for one in alarms)
        records, bad = records + len(log.steps), bad + bool(alarms)
    kinds = ", ".join(f"{kind} {count}" for kind, count in false.most_common())
    print(f"{family}: {runs} healthy runs, {records:,} records; false alarms: {kinds or 'none'}; wrong_best in {notes}")
    a_record = verdict("false alarms a 10,000 records", 1e4 * false.total() / records, 1e4 * LIMITS[family], "")
    return verdict("runs with a false alarm", bad / runs, 0.05, "") and a_record


def found(kind: str, runs: int, seed: int) -> tuple[int, int, list[float]]:
    """Runs in which a fault is found, those of them in which another kind comes first, lateness in shares of a run."""
    hits, misnamed, late = 0, 0, []
    for number in range(runs):
        log = ill(kind, np.random.default_rng([seed, number, sum(map(ord, kind))]))
        alarms = [one for one in alarms_of(log, kind) if one.noticed >= log.begins]
        first = next((one.noticed for one in alarms if one.kind == kind), None)
        if first is not None:
            hits += 1
            misnamed += alarms[0].kind != kind
            late.append(max(0, first - log.seen) / int(log.steps[-1] - log.steps[0] + 1))
    return hits, misnamed, late


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", type=int, default=200, help="runs a family")
    parser.add_argument("--ill", type=int, default=40, help="runs a kind of fault")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    met = [healthy(family, given.healthy, given.seed) for family in FAMILIES]
    hits = misnamed = 0
    late: list[float] = []
    for kind in FAULTS:
        of_kind, other, lateness = found(kind, given.ill, given.seed)
        hits, misnamed, late = hits + of_kind, misnamed + other, late + lateness
        middle = float(np.median(lateness)) if lateness else np.nan
        print(
            f"{kind:18} found in {of_kind / given.ill:4.0%}, {middle:.0%} of the run late, other kind first in {other}"
        )
    met += [
        verdict("recall of faults", hits / (given.ill * len(FAULTS)), 0.9, "", at_most=False),
        verdict("first alarm names the kind", 1 - misnamed / max(1, hits), 0.85, "", at_most=False),
        verdict("median lateness, share of the run", float(np.median(late)), 0.05, ""),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
