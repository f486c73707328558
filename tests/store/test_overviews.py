"""Overviews of many series: against what the points themselves say, however they were logged, flushed and resumed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midflight.store import open_store
from midflight.store._points import CHUNK
from midflight.store.base import Block

VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([np.nan, np.inf, -np.inf, 1e300]))


def new_run(store, name="r"):
    return store.create_run("p", name, owner="me:1:2").id


def log(store, run, steps, attempt=1, **series):
    values = np.array([np.broadcast_to(v, len(steps)) for v in series.values()], np.float64)
    store.append_points(run, attempt, [Block(tuple(series), np.array(steps, np.int64), np.array(steps) / 10, values)])


def brute(store, run, key, overviews, low=None, high=None):
    """Mean, minimum and maximum of each bucket from the points themselves."""
    points = store.read_points(run, key, low, high)
    ends = overviews.steps + max(1, overviews.width)
    found = []
    for start, end in zip(overviews.steps, ends, strict=True):
        inside = points.values[(points.steps >= start) & (points.steps < end)]
        finite = inside[np.isfinite(inside)]
        with np.errstate(over="ignore"):
            found.append(
                [f(finite).astype(np.float32) if len(finite) else np.nan for f in (np.mean, np.min, np.max)]
                + [len(inside) - len(finite)]
            )
    return np.array(found, np.float64).reshape(-1, 4), len(points.steps)


def check(store, runs, keys, low=None, high=None, buckets=400, **tolerance):
    found = store.read_overviews(runs, keys, low, high, buckets)
    assert len(found.steps) <= buckets
    assert (np.diff(found.steps) >= max(1, found.width)).all()
    broken = np.zeros(found.mean.shape)
    for one in found.non_finite:
        broken[one.row, one.bucket] = one.count
    for row, (run, key) in enumerate(found.series):
        wanted, count = brute(store, run, key, found, low, high)
        assert found.num_points[row] == count
        assert broken[row].tolist() == wanted[:, 3].tolist()
        np.testing.assert_array_equal(found.low[row], wanted[:, 1].astype(np.float32))
        np.testing.assert_array_equal(found.high[row], wanted[:, 2].astype(np.float32))
        np.testing.assert_allclose(found.mean[row], wanted[:, 0], rtol=1e-5, atol=1e-2)
    return found


@settings(max_examples=40)
@given(
    logged=st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from(["a", "ab", "b"]), st.integers(0, 400), st.integers(1, 90), VALUES
        ),
        min_size=1,
        max_size=10,
    ),
    resumes=st.sets(st.integers(1, 9), max_size=2),
    bounds=st.tuples(st.none() | st.integers(0, 500), st.none() | st.integers(0, 500)),
    buckets=st.integers(10, 200),
    finish=st.booleans(),
)
def test_the_same_as_from_the_points(tmp_path_factory, logged, resumes, bounds, buckets, finish):
    """Where no step is logged twice; two runs, late steps, NaN, attempts that supersede."""
    store = open_store(str(tmp_path_factory.mktemp("s") / "s.db"))
    runs, attempts, seen = [new_run(store, "r0"), new_run(store, "r1")], [1, 1], set()
    for number, (which, keys, start, count, value) in enumerate(logged):
        if number in resumes:
            attempts[which] = store.resume_run(runs[which], owner=f"me:{number}:2", before=store.owner(runs[which]))
        steps = [s for s in range(start, start + count) if not seen & {(which, k, s) for k in keys}]
        seen |= {(which, k, s) for k in keys for s in steps}
        if steps:
            series = {key: value + np.arange(len(steps)) + ord(key) for key in keys}
            log(store, runs[which], steps, attempts[which], **series)
    if finish:
        store.finish_run(runs[0], "finished")
    check(store, runs, ["a", "b", "nothing"], *bounds, buckets)


def test_few_points_are_given_as_they_are(store):
    run, other = new_run(store, "r"), new_run(store, "other")
    log(store, run, [0, 1000, 2000], x=[1.0, np.nan, 3.0])
    log(store, other, [1000, 5000], x=[7.0, np.inf])
    found = check(store, [run, other], ["x"])
    assert found.width == 0
    assert found.steps.tolist() == [0, 1000, 2000, 5000]
    assert found.mean[0].tolist()[::2] == [1.0, 3.0]
    assert {(one.row, one.bucket, one.count, one.kind) for one in found.non_finite} == {
        (0, 1, 1, "nan"),
        (1, 3, 1, "inf"),
    }


def test_the_last_word_on_a_step_counts_whatever_it_was_logged_beside(store):
    run = new_run(store)
    log(store, run, [1, 2], x=[1.0, 2.0], y=[1.0, 2.0])
    log(store, run, [2], x=[np.nan])
    log(store, run, [2, 1], x=[5.0, 6.0], z=[0.0, 0.0])
    found = check(store, [run], ["x", "y", "z"])
    assert found.mean.tolist()[0] == [6.0, 5.0]
    assert not found.non_finite


def test_the_last_word_on_a_step_counts_whatever_other_runs_wrote_first(store):
    early, late = np.arange(CHUNK), np.arange(CHUNK) + CHUNK // 2
    runs = [new_run(store, name) for name in "abcd"]
    for run, parts in zip(runs, ([early, late], [late, early], [early, early], [late]), strict=True):
        for place, steps in enumerate(parts):
            log(store, run, steps, x=np.full(CHUNK, float(100 * run + place)))
    found = check(store, runs, ["x"], buckets=2 * CHUNK)
    assert not found.width


@pytest.mark.parametrize("at", [0, 1, 63, 64, CHUNK, 123_457, 199_999])
def test_a_spike_of_one_step_is_in_every_overview_at_its_place(store, at):
    run, values = new_run(store), np.zeros(200_000)
    values[at] = 10.0
    log(store, run, range(200_000), x=values)
    for buckets in (10, 333, 1000):
        found = store.read_overviews([run], ["x"], buckets=buckets)
        assert found.width > 0
        peak = int(np.nanargmax(found.high[0]))
        assert found.high[0, peak] == 10.0
        assert abs(int(found.steps[peak]) - at) <= 1.25 * found.width  # a row of a sketch spans an eighth of a bucket
    zoomed = check(store, [run], ["x"], max(0, at - 50), at + 50)
    assert zoomed.width == 0
    assert zoomed.high[0][zoomed.steps.tolist().index(at)] == 10.0


def test_buckets_stay_where_they_are_while_a_run_grows(store):
    run = new_run(store)
    log(store, run, range(5000), x=np.sin(np.arange(5000.0)))
    before = store.read_overviews([run], ["x"])
    log(store, run, range(5000, 6000), x=np.sin(np.arange(5000.0, 6000.0)))
    after = store.read_overviews([run], ["x"])
    assert after.width == before.width == 16
    full = slice(0, 5000 // 16)
    assert np.array_equal(before.mean[0][full], after.mean[0][full])


def test_nothing_there(store):
    run = new_run(store)
    for found in (store.read_overviews([], []), store.read_overviews([run, 99], ["x"], 5, 3)):
        assert (found.steps.tolist(), found.series, found.non_finite) == ([], (), [])
    log(store, run, [1, 2], x=[1.0, 2.0])
    for bounds in ((3, None), (None, 0), (2, 1)):
        found = store.read_overviews([run], ["x"], *bounds)
        assert found.mean.size == 0
        assert found.num_points.tolist() == [0]


def test_steps_as_large_as_can_be(store):
    run = new_run(store)
    steps = [0, 1 << 61, 1 << 62]
    log(store, run, steps, x=[1.0, 2.0, 3.0])
    log(store, run, range(10, 1000), x=1.0)
    assert store.read_overviews([run], ["x"], buckets=4000).steps[-1] == 1 << 62
    assert store.read_overviews([run], ["x"], buckets=10).high[0].max() == 3.0


def test_a_run_that_ends_is_compacted(store):
    run = new_run(store)
    for step in range(50):
        log(store, run, [step], x=[step], y=[-step])
    before = store.read_points(run, "y")
    store.finish_run(run, "finished")
    with store.database.reading() as db:
        assert db.execute("SELECT count(*) FROM flush").fetchone()[0] == 0
        assert db.execute("SELECT count(*), sum(n) FROM chunk").fetchone() == (2, 100)
    assert store.read_points(run, "y").values.tolist() == before.values.tolist()
