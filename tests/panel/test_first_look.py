"""What a first look at a project or a run is owed: what moves first, what is the same once, how far of how many steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from serving import answered

from midflight.errors import NotFoundError
from midflight.panel.panel import Panel
from midflight.records import Finding
from midflight.store.base import Block


@pytest.fixture
def panel(filled):
    return Panel(filled, background=False)


def logged(store, name, config, values, steps=40):
    """A run whose series have these values, as functions of the step."""
    info = store.create_run("p", name, owner="x", config=config)
    at = np.arange(steps)
    rows = np.stack([np.array([value(step) for step in at.tolist()], float) for value in values.values()])
    store.append_points(info.id, 1, [Block(tuple(values), at, info.created + 0.5 * at, rows)])
    return info.id


def test_series_that_never_change_come_last(store):
    values = {
        "clip": lambda step: 0.0,
        "jump": lambda step: float(step == 7),
        "holes": lambda step: math.nan if step == 7 else 0.0,
        "loss": lambda step: 1.0 / (1 + step),
    }
    one = logged(store, "a", {}, {**values, "apart": lambda step: 1.0})
    logged(store, "b", {}, {**values, "apart": lambda step: 2.0, "runtime": lambda step: 3.0}, steps=1)
    panel = Panel(store, background=False)
    keys = [series["key"] for series in answered(panel, f"/api/runs/{one}")["series"]]
    assert keys == ["loss", "holes", "jump", "apart", "clip"]
    keys = [series["key"] for series in answered(panel, "/api/runs")["columns"]["series"]]
    assert keys == ["loss", "apart", "holes", "jump", "clip", "runtime"]


def test_what_all_runs_have_is_no_column(store):
    for seed in (0, 1):
        logged(store, f"r{seed}", {"seed": seed, "lr": 0.1, **({"only": 1} if seed else {})}, {"loss": float})
    columns = answered(Panel(store, background=False), "/api/runs")["columns"]
    assert (set(columns["config"]), columns["same"]) == ({"seed", "only"}, {"lr": 0.1})
    columns = answered(Panel(store, background=False), "/api/runs?runs=1")["columns"]
    assert (columns["config"], columns["same"]) == (["seed", "lr"], {})


def test_how_far_of_how_many_steps_and_whether_a_run_was_stopped(store):
    ended, going = (logged(store, name, {"max_steps": 80}, {"loss": float}) for name in ("ended", "going"))
    whole = logged(store, "whole", {"max_steps": 41}, {"loss": float})
    grave = Finding("collapse", "stop", 30, 32, ("loss",), "text", {}, "meaning", "advice", "confirm")
    store.add_finding(ended, 1, replace(grave, kind="spike", severity="warn", onset=1, noticed=2))
    store.add_finding(ended, 1, grave)
    for id in (ended, whole):
        store.finish_run(id, "finished")
    rows = {row["id"]: row for row in answered(Panel(store, background=False), "/api/runs")["runs"]}
    told = {id: (row["last_step"], row["planned_steps"], row["ended_early"]) for id, row in rows.items()}
    assert (told[ended], told[whole], told[going]) == ((39, 80, True), (39, 41, False), (39, 80, False))
    assert (rows[ended]["stopped_by"], rows[whole]["stopped_by"]) == ("collapse", "")
    assert rows[going]["seconds_left"] == pytest.approx(0.5 * 41)
    assert rows[ended]["seconds_left"] is None


def test_items_that_changed_have_their_first_words(panel):
    (sums,) = (one for one in answered(panel, "/api/runs/1")["tasks"] if one["task"] == "sums")
    flips = sums["flips"]
    assert set(flips["titles"]) == {*flips["learned_items"][:6], "i0"}
    assert all(flips["titles"].values())


def test_a_run_that_is_not_there_is_not_found_by_any_answer(panel):
    for path in ("/api/runs/9", "/api/series?keys=loss&runs=1,9", "/api/series?keys=loss&runs=9&walls=1"):
        with pytest.raises(NotFoundError):
            answered(panel, path)
    assert panel.store.run_ids() == {1, 2}
    assert [run.id for run in panel.store.runs(ids=[1])] == [1]
    assert [run.id for run in panel.chosen([1, 2])] == [1, 2]
