"""How well detectors do on labelled real logs: recall, false alarms, kind, lateness, compute saved.

    python benchmarks/bench_detectors.py [FOLDER] [--verbose]

FOLDER holds a folder a run and `labels.json`, as ../shared/data/runs does; its README says how to score: recall of
clear findings; false alarms on healthy runs, and before the first onset of the others; arguable ones count neither way.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _measure import verdict

from midflight.analyse.diagnose import Diagnosis, diagnose_log
from midflight.analyse.history import history_of_log
from midflight.analyse.importers import read_any
from midflight.analyse.savings import savings_of

FACTS = {"wrong_best", "truncated", "restart", "memorisation"}
"""Kinds that are lines of a report, and no alarms."""
PRETRAIN = {"pretrain"}
ROUNDS = 2000


@dataclass
class Scored:
    """One run, scored.

    Attributes:
        run: Its name.
        pretrain: Whether it is a pre-training run.
        healthy: Whether its label says so.
        records: Clean exposure: records of a healthy run, or those before the first onset of another.
        hits: Clear findings that were found.
        missed: Those that were not.
        right_kind: Runs with a clear finding in which the first alarm names a labelled kind.
        lateness: Steps beyond `onset_latest`, as a share of the run.
        false: False alarms.
        saved: Share of the run after the first alarm to stop, if it is doomed.
        lost: Share of the best metric that stopping would have cost, if it is healthy.
    """

    run: str
    pretrain: bool
    healthy: bool
    records: int = 0
    hits: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    right_kind: list[bool] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)
    lost: float = 0.0


def score(label: dict[str, Any], found: Sequence[Diagnosis], num_records: int) -> Scored:
    """Holds what was noticed in a run against its label."""
    scored = Scored(label["run_id"], label["algorithm"] in PRETRAIN, label["healthy"] is True)
    alarms = [finding for diagnosis in found for finding in diagnosis.findings if finding.kind not in FACTS]
    labelled = [one for one in label["findings"] if one["kind"] not in FACTS]
    clear = [one for one in labelled if one["certainty"] == "clear"]
    length = max(1, label["last_step"] - label["first_step"] + 1)
    for one in clear:
        hits = [a for a in alarms if a.kind == one["kind"] and a.noticed >= one["from_step"]]
        if not hits:
            scored.missed.append(one["kind"])
            continue
        scored.hits.append(one["kind"])
        scored.lateness.append(max(0, min(a.noticed for a in hits) - one["onset_latest"]) / length)
    onset = label["first_onset_step"]
    kinds = {one["kind"] for one in labelled}
    for alarm in alarms:
        early = [one for one in labelled if one["kind"] == alarm.kind and alarm.noticed < one["from_step"]]
        listed = alarm.kind in kinds and len(early) < sum(one["kind"] == alarm.kind for one in labelled)
        clean = label["healthy"] is True or (onset is not None and alarm.noticed < onset)
        if clean and not listed and label["healthy"] is not None:
            scored.false.append(f"{alarm.kind}@{alarm.noticed}")
    scored.records = num_records if label["healthy"] is True else 0
    if label["healthy"] is False and onset is not None:
        scored.records = round(num_records * max(0, onset - label["first_step"]) / length)
    if clear and alarms:
        first = min(alarms, key=lambda alarm: alarm.noticed)
        scored.right_kind.append(first.kind in kinds)
    stops = [a.noticed for a in alarms if a.severity == "stop"]
    doomed = label["healthy"] is False and label["stop_step"] is not None
    if doomed:
        planned = max(length, label.get("planned_steps") or 0)
        end = label["first_step"] + length - 1
        scored.saved.append(max(0.0, (end - min(stops, default=end)) / length) if planned else 0.0)
    return scored


def interval(runs: Sequence[Scored], figure: Callable[[Sequence[Scored]], float]) -> tuple[float, float]:
    """95 % of the figure over resampled runs."""
    draw = random.Random(0)
    values = sorted(value for _ in range(ROUNDS) if math.isfinite(value := figure(draw.choices(runs, k=len(runs)))))
    return (values[int(0.025 * len(values))], values[int(0.975 * len(values)) - 1]) if values else (math.nan, math.nan)


def false_rate(runs: Sequence[Scored], pretrain: bool) -> float:
    """False alarms a clean record."""
    chosen = [run for run in runs if run.pretrain == pretrain]
    return share(sum(len(run.false) for run in chosen), sum(run.records for run in chosen))


def share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan


FIGURES: dict[str, tuple[Callable[[Sequence[Scored]], float], float, bool]] = {
    "recall of clear findings": (
        lambda runs: share(sum(len(r.hits) for r in runs), sum(len(r.hits) + len(r.missed) for r in runs)), 0.9, False,
    ),
    "false alarms a 10,000 records, pre-training": (lambda runs: 1e4 * false_rate(runs, pretrain=True), 1.0, True),
    "false alarms a 1,000 records, others": (lambda runs: 1e3 * false_rate(runs, pretrain=False), 1.0, True),
    "healthy runs with a false alarm": (
        lambda runs: share(sum(bool(r.false) for r in runs if r.healthy), sum(r.healthy for r in runs)), 0.05, True,
    ),
    "first alarm names a labelled kind": (
        lambda runs: share(sum(sum(r.right_kind) for r in runs), sum(len(r.right_kind) for r in runs)), 0.85, False,
    ),
    "median lateness, share of the run": (lambda runs: median([late for r in runs for late in r.lateness]), 0.05, True),
    "compute saved on doomed runs": (
        lambda runs: share(sum(sum(r.saved) for r in runs), sum(len(r.saved) for r in runs)), 0.3, False,
    ),
    "best metric lost on a healthy run": (lambda runs: max((r.lost for r in runs), default=0.0), 0.005, True),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    default = os.environ.get("MIDFLIGHT_TEST_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("folder", nargs="?", type=Path, default=Path(default) / "runs")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    runs = []
    for label in json.loads((given.folder / "labels.json").read_text()):
        logs = [run for file in label["files"][:1] for run in read_any((given.folder / file).parent)]
        found = [diagnose_log(run) for run in logs]
        scored = score(label, found, sum(one.num_records for one in found))
        if scored.healthy:
            scored.lost = max((savings_of(history_of_log(log)).relative_cost or 0.0 for log in logs), default=0.0)
        runs.append(scored)
        if given.verbose:
            noticed = ", ".join(f"{f.kind}@{f.noticed}" for one in found for f in one.findings)
            algorithms = "/".join(dict.fromkeys(one.algorithm for one in found))
            print(f"{scored.run} [{label['algorithm']}→{algorithms}] {'healthy' if scored.healthy else ''}: {noticed}")
            for name, values in (("missed", scored.missed), ("FALSE", scored.false)):
                if values:
                    print(f"    {name}: {', '.join(values)}")
            late = [f"{value:.0%}" for value in scored.lateness if value > 0.05]
            if late:
                print(f"    late: {', '.join(late)}")
    print(f"{len(runs)} runs, {sum(r.records for r in runs):,} clean records")
    met = []
    for name, (figure, limit, at_most) in FIGURES.items():
        low, high = interval(runs, figure)
        met.append(verdict(f"{name} [{low:.3g}, {high:.3g}]", figure(runs), limit, "", at_most))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
