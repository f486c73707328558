"""Nothing vanishes and nothing is mixed: evaluations that cannot be compared stand apart, and the difference is named."""

from __future__ import annotations

import re

import pytest

from midflight.analyse.variants import labels_of, newest_by_step, row_labels, variants_of
from midflight.engines import Fake
from midflight.errors import ConfigError
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.show.panels import panels_of
from midflight.show.state import view_run
from midflight.show.tables import console, curve_table, runs_table
from midflight.tasks import Task


class Model(Fake):
    """A fake of another numeric type, path or weights."""

    def __init__(self, dtype="float32", model="m", weights="w"):
        super().__init__("1")
        self.changes, self.digest = {"dtype": dtype, "model": model}, weights

    def fingerprint(self):
        return {**super().fingerprint(), **self.changes}

    def weights(self):
        return self.digest


def sums(n=4, prompt="{{ a }}"):
    rows = [{"a": a, "kind": "ab"[a % 2]} for a in range(n)]
    return Task("sums", rows, prompt=prompt, target="a", metrics=["exact_match"], slices={"kind": "kind"})


@pytest.fixture
def run(store):
    with Run("p", "r", store=store) as run:
        yield run


def evaluate(run, step, engine=None, task=None, seed=0):
    return evaluate_checkpoint(task or sums(), engine or Model(), run=run, progress=Progress(step), seed=seed)


def shown(table) -> str:
    screen = console()
    with screen.capture() as text:
        screen.print(table)
    return text.get()


def labels(run) -> list[str]:
    return labels_of(variants_of(run.store.reports(run.id)))


@pytest.mark.parametrize(
    ("other", "label"),
    [
        ({"seed": 1}, "seed=1"),
        ({"engine": Model("bfloat16")}, "dtype=bfloat16"),
        ({"task": sums(2)}, r"items=\w{8}"),
        ({"task": sums(prompt="{{ a }}?")}, r"prompt=\w{8}"),
        ({"engine": Model(model="n")}, "model=n"),
        ({"engine": Model("bfloat16"), "seed": 3}, "dtype=bfloat16, seed=3"),
    ],
)
def test_each_curve_is_of_one_kind_and_says_what_it_is(run, other, label):
    for step in (0, 10):
        evaluate(run, step)
        evaluate(run, step, **other)
    reports = run.store.reports(run.id)
    assert len(reports) == 4
    assert [len(variant.reports) for variant in variants_of(reports)] == [2, 2]
    assert re.fullmatch(label, labels(run)[1])
    table = shown(curve_table(reports))
    assert len(table.splitlines()) == 6
    assert " of " in table
    (panel,) = panels_of(run.store, [run.info], "exact_match")
    assert [curve.label for curve in panel.curves] == labels(run)
    assert shown(runs_table([view_run(run.store, run.info)])).count("exact_match") == 2


def test_where_nothing_differs_nothing_is_said(run):
    for step in (0, 10):
        evaluate(run, step, Model(model=f"out/checkpoint-{step}", weights=str(step)))
    assert labels(run) == [""]
    assert "of which" in shown(curve_table(run.store.reports(run.id)))
    assert " of  " not in shown(curve_table(run.store.reports(run.id)))
    (panel,) = panels_of(run.store, [run.info], "exact_match")
    assert [curve.label for curve in panel.curves] == ["r"]


def test_checkpoints_of_two_models_are_two_curves_not_one_a_checkpoint(run):
    for step in (0, 10):
        for name in ("one", "two"):
            evaluate(run, step, Model(model=f"{name}/checkpoint-{step}", weights=name))
    assert labels(run) == ["model=one/checkpoint-{step}", "model=two/checkpoint-{step}"]


def test_new_weights_of_a_step_stand_beside_the_old_ones(run):
    for weights in ("old", "new"):
        evaluate(run, 5, Model(weights=weights))
    reports = run.store.reports(run.id)
    assert list(row_labels(reports).values()) == ["weights=old", "weights=new"]
    assert [report.weights for report in newest_by_step(reports)] == ["new"]
    (panel,) = panels_of(run.store, [run.info], "exact_match")
    assert (len(panel.curves[0].reports), panel.curves[0].num_replaced) == (1, 1)


class TestSlices:
    def test_a_curve_for_each_value(self, run):
        evaluate(run, 0)
        (panel,) = panels_of(run.store, [run.info], "exact_match", by="kind")
        assert [curve.label for curve in panel.curves] == ["kind=a", "kind=b"]
        assert panel.title == "sums: exact_match by kind"

    @pytest.mark.parametrize("wanted", [{"slice": "kind=c"}, {"by": "kin"}])
    def test_what_is_not_there_names_what_is(self, run, wanted):
        evaluate(run, 0)
        with pytest.raises(ConfigError, match="no such slice; got 'kin.*'; allowed: kind=a, kind=b"):
            panels_of(run.store, [run.info], "exact_match", **wanted)

    def test_tasks_without_the_slice_are_left_out(self, run):
        evaluate(run, 0)
        evaluate(run, 0, task=Task("plain", [{"a": 1}], prompt="{{ a }}", target="a", metrics=["exact_match"]))
        for wanted in ({"slice": "kind=a"}, {"by": "kind"}):
            assert [p.title[:5] for p in panels_of(run.store, [run.info], "exact_match", **wanted)] == ["sums:"]
        assert len(panels_of(run.store, [run.info], "exact_match")) == 2
        with pytest.raises(ConfigError, match="allowed: none: it has no slices"):
            panels_of(run.store, [run.info], "plain/exact_match", by="kind")

    def test_more_curves_than_can_be_told_apart_are_refused(self, run):
        rows = [{"a": a} for a in range(40)]
        task = Task("many", rows, prompt="{{ a }}", target="a", metrics=["exact_match"], slices={"a": "a"})
        evaluate(run, 0, task=task)
        with pytest.raises(ConfigError, match="40 curves in one picture; allowed: up to 32"):
            panels_of(run.store, [run.info], "exact_match", by="a")


def test_runs_of_one_name_are_told_apart_and_one_asked_for_twice_is_one(store):
    infos = []
    for _ in range(2):
        with Run("p", "r", store=store, resume="never") as run:
            evaluate(run, 0)
            infos.append(run.info)
    (panel,) = panels_of(store, [*infos, infos[0]], "exact_match")
    assert [curve.label for curve in panel.curves] == ["r (1)", "r (2)"]
