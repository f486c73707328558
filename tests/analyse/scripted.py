"""Runs in real stores, filled as the pipeline fills them, whose checkpoints answer as a table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.tasks import Task


class Scripted(Fake):
    """Answers right, with ``1``, to the items of one checkpoint that are listed."""

    def __init__(self, right: Mapping[str, bool], weights: str, fail: Sequence[str] = ()) -> None:
        super().__init__(lambda request: "1" if right[request.item_id] else "0", fail=fail)
        self.digest = weights

    def fingerprint(self):
        return {"name": "fake", "model": "scripted"}  # what it answers is its weights, not its kind

    def weights(self):
        return self.digest


def train(store, name, table: Mapping[int, Sequence[int]], task="sums", clusters=None, fail=(), **options):
    """Trains a run whose checkpoints answer as a table says: a row a step, a column an item, 1 = right."""
    n = len(next(iter(table.values())))
    rows = [{"a": a, "kind": "ab"[a % 2], "passage": str(a if clusters is None else clusters[a])} for a in range(n)]
    own = Task(
        task,
        rows,
        prompt="{{ a }}",
        target="1",
        metrics=["exact_match", "response_length"],
        slices={"kind": "kind"},
        **({"cluster": "passage"} if clusters is not None else {}),
    )
    with Run("p", name, store=store, resume="never", **options) as run:
        for step, right in table.items():
            answers = {f"{a:06d}": bool(value) for a, value in enumerate(right)}
            engine = Scripted(answers, f"{name} {step}", fail if step == max(table) else ())
            evaluate_checkpoint(own, engine, run=run, progress=Progress(step))
    return store.runs("p", name)[0]
