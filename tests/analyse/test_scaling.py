"""Runs that differ in workers: what is timed, by which count, and what is said where nothing can be."""

from __future__ import annotations

import numpy as np
import pytest

from midflight.analyse.scaling import scaling_of
from midflight.errors import ConfigError, UnknownKeyError
from midflight.records import Cost, Estimate, EvalReport, Progress
from midflight.store.base import Block

BEGAN = 1.7e9


@pytest.fixture
def logged(store):
    """A run whose steps took so long each, as its process would have logged them."""

    def log(name, workers, seconds_a_step, steps=range(10, 101, 10), config=None, **series):
        environment = {} if workers is None else {"world_size": workers}
        info = store.create_run("p", name, owner="x", environment=environment, config=config or {})
        steps = np.array(steps)
        values = {"loss": 3 * np.exp(-steps / 50), "tokens": steps * 1000.0, **series}
        walls = BEGAN + seconds_a_step * steps
        store.append_points(info.id, 1, [Block(tuple(values), steps, walls, np.stack(list(values.values())))])
        return store.runs("p", name)[0]

    return log


def by_run(scaling):
    return {timing.run: timing for timing in scaling.timings}


def test_speed_up_and_efficiency_are_over_the_smallest_runs(store, logged):
    runs = [logged("n8", 8, 0.25), logged("n2", 2, 0.5), logged("n2b", 2, 0.7)]
    found = scaling_of(store, runs)
    assert [timing.run for timing in found.timings] == ["n2", "n2b", "n8"]
    assert (found.work, found.unit) == ("for steps 10 to 100", "ranks")
    n8 = by_run(found)["n8"]
    assert (n8.seconds, n8.rate) == (pytest.approx(22.5), pytest.approx(4.0))
    assert (n8.speedup, n8.efficiency) == (pytest.approx(0.6 / 0.25), pytest.approx(0.6 / 0.25 / 4))
    assert found.law.counts == (2, 8)


def test_the_work_is_what_all_runs_have_logged_whatever_their_spacing(store, logged):
    runs = [logged("a", 1, 1.0, range(3, 95, 7)), logged("b", 2, 0.5, range(0, 201, 5))]
    found = scaling_of(store, runs)
    assert found.work == "for steps 3 to 94"
    assert [timing.seconds for timing in found.timings] == pytest.approx([91.0, 45.5])
    assert found.law.serial == pytest.approx(0.0, abs=1e-6)


def test_a_number_of_steps_tokens_or_a_level_can_be_the_goal(store, logged):
    runs = [logged("a", 1, 1.0), logged("b", 2, 0.5)]
    assert by_run(scaling_of(store, runs, goal="step=60"))["b"].seconds == pytest.approx(25)
    tokens = scaling_of(store, runs, goal="tokens=5e4")
    assert (tokens.work, by_run(tokens)["a"].seconds) == ("until tokens reaches 50000", pytest.approx(40))
    assert by_run(tokens)["b"].rate == pytest.approx(2000)
    loss = scaling_of(store, runs, goal="loss=1.0")  # falls; 3·exp(−60/50) is the first below
    assert (by_run(loss)["a"].seconds, by_run(loss)["a"].rate) == (pytest.approx(50), None)


def test_a_run_that_begins_beyond_the_goal_was_there_from_the_start(store, logged):
    steps = np.arange(10, 101, 10)
    whole, resumed = logged("whole", 1, 1.0), logged("resumed", 2, 0.5, loss=0.9 * np.exp(-steps / 50))
    found = by_run(scaling_of(store, [whole, resumed], goal="loss=1"))
    assert found["whole"].seconds == pytest.approx(50)
    assert (found["resumed"].seconds, found["resumed"].note) == (
        None,
        "was there at its first point: 0.736858 at step 10",
    )
    grown = logged("grown", 4, 0.5, tokens=steps * 1000.0 + 60_000)
    assert by_run(scaling_of(store, [whole, grown], goal="tokens=50000"))["grown"].note == (
        "was there at its first point: 70000 at step 10"
    )


def test_a_metric_can_be_the_goal(store, logged):
    runs = [logged("a", 1, 1.0), logged("b", 2, 0.5)]
    for run, pace in zip(runs, (1.0, 0.5), strict=True):
        for step, value in ((20, 0.2), (50, 0.6), (80, 0.5)):
            handle = store.begin_evaluation(run.id, 1, f"{run.id} {step}", "sums", "f", Progress(step), "w")
            estimate = Estimate("acc", "", value, 0.1, 0, 1, 0.95, 5, 5, "t", {"ok": 5}, higher_is_better=True)
            at = BEGAN + pace * step
            report = EvalReport(handle.id, "sums", "f", {}, {}, "w", "done", Progress(step), [estimate], Cost(), 0, at)
            store.finish_evaluation(report, {})
    found = by_run(scaling_of(store, runs, goal="sums/acc=0.55"))
    assert (found["a"].seconds, found["b"].seconds) == (pytest.approx(40), pytest.approx(20))
    first = by_run(scaling_of(store, runs, goal="acc=0.1"))
    assert (first["a"].seconds, first["a"].note) == (None, "was there at its first evaluation: 0.2 at step 20")
    never = by_run(scaling_of(store, runs, goal="acc=0.9"))
    assert (never["a"].seconds, never["a"].note) == (None, "has not reached it")
    with pytest.raises(UnknownKeyError):
        scaling_of(store, runs, goal="sums/nope=1")


def test_workers_come_from_the_record_a_config_key_or_the_caller(store, logged):
    runs = [logged("a", 8, 1.0, config={"nodes": 1}), logged("b", 16, 0.5, config={"nodes": 2})]
    assert [t.count for t in scaling_of(store, runs).timings] == [8, 16]
    by_key = scaling_of(store, runs, by="nodes")
    assert (by_key.unit, [t.count for t in by_key.timings]) == ("nodes", [1, 2])
    assert [t.count for t in scaling_of(store, runs, counts={"b": 3}).timings] == [3, 8]


@pytest.mark.parametrize("workers", [None, 0, True, "four", 1.5])
def test_a_run_without_a_number_of_workers_is_refused(store, logged, workers):
    with pytest.raises(ConfigError, match="workers of run 'a': .*got .*or say the number itself"):
        scaling_of(store, [logged("a", workers, 1.0)])


def test_what_cannot_be_timed_is_said(store, logged):
    slow, fast = logged("slow", 1, 1.0, range(10, 51, 10)), logged("fast", 2, 0.5)
    found = by_run(scaling_of(store, [slow, fast], goal="step=80"))
    assert (found["slow"].seconds, found["slow"].note) == (None, "has only come to step 50")
    assert found["fast"].speedup == 1.0  # the smallest of those that were timed
    away = "has not reached it: moves away, from 2.45619 to 1.10364"
    assert by_run(scaling_of(store, [slow], goal="loss=99"))["slow"].note == away
    there = "was there at its first point: 10000 at step 10"
    assert by_run(scaling_of(store, [slow], goal="tokens=10000"))["slow"].note == there
    gone = logged("gone", 4, 0.1, [10, 20], reward=np.array([np.nan, np.nan]))
    assert by_run(scaling_of(store, [gone], goal="reward=1"))["gone"].note == "has not logged reward"
    with pytest.raises(ConfigError, match="no steps that all runs have logged"):
        scaling_of(store, [slow, logged("late", 2, 1.0, [70, 80])])
    for goal in ("step", "=3", "step=x", "loss=nan"):
        with pytest.raises(ConfigError, match="goal; got"):
            scaling_of(store, [slow], goal=goal)
    empty = store.create_run("p", "empty", owner="x", environment={"world_size": 1})
    with pytest.raises(ConfigError, match="has logged no training series"):
        scaling_of(store, [empty])
    with pytest.raises(UnknownKeyError):
        scaling_of(store, [slow], counts={"slwo": 3})


def test_a_resumed_run_says_that_its_pause_is_in_its_time(store, logged):
    info = logged("a", 1, 1.0)
    assert store.resume_run(info.id, owner="y", before="x") == 2
    (timing,) = scaling_of(store, store.runs("p", "a")).timings
    assert timing.note == "2 attempts, the time between them is in it"
