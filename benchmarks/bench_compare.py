"""Comparing two runs of many items from the store: at most 2 s for 20 tasks of 10,000 items each.

python benchmarks/bench_compare.py
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from _measure import timed, verdict

from midflight.analyse.compare import compare
from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Score
from midflight.run import Run
from midflight.store import open_store
from midflight.tasks import Task

TASKS, ITEMS, LIMIT_S = 20, 10_000, 2.0


def fill(url: str) -> None:
    """Two runs with an evaluation of each task; scores of one in ten items differ."""
    store, draw = open_store(url), random.Random(0)
    for name in ("base", "tuned"):
        with Run("p", name, store=store) as run:
            for number in range(TASKS):
                task = Task(f"task{number:02}", [{"a": a} for a in range(2)], prompt="{{ a }}", metrics=["exact_match"],
                            target="a")  # fmt: skip
                report = evaluate_checkpoint(task, Fake(version=name), run=run)
                scores = [
                    Score(f"{item:06d}", "exact_match", float(item % 2 if draw.random() > 0.1 else draw.random() < 0.5))
                    for item in range(ITEMS)
                ]
                store.finish_evaluation(report, {"exact_match": scores})


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'bench.db'}"
        fill(url)
        found = []
        seconds = min(timed(lambda: found.append(compare("base", "tuned", store=url))) for _ in range(3))
    pairs = sum(row.n for row in found[0].differences)
    print(f"{len(found[0].differences)} tasks, {pairs:,} pairs of items")
    return 0 if verdict("compare two runs", seconds, LIMIT_S, "s") else 1


if __name__ == "__main__":
    sys.exit(main())
