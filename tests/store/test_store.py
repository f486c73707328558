"""The store: nothing is lost, nothing counts twice, many processes at once, and a clear word when something is wrong."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midflight.errors import ConfigError, StoreError
from midflight.records import Cost, Estimate, EvalReport, Item, Output, Progress, Score
from midflight.store import open_store
from midflight.store._points import CHUNK, Sketch, decode_blocks, decode_chunk, encode_block, encode_chunks
from midflight.store.base import Block

ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)


def block(steps, **series) -> Block:
    values = np.array(list(series.values()), np.float64).reshape(len(series), len(steps))
    return Block(tuple(series), np.array(steps, np.int64), np.arange(len(steps), dtype=np.float64), values)


def new_run(store, name="r"):
    return store.create_run("p", name, owner="me:1:2").id


class TestEncoding:
    @given(st.lists(st.tuples(st.integers(0, 2**40), ANY, ANY), min_size=1, max_size=200))
    def test_blocks_and_chunks_round_trip_to_the_bit(self, rows):
        steps, walls, values = (np.array(column) for column in zip(*rows, strict=True))
        steps, walls, values = steps.astype(np.int64), walls.astype(np.float64), values.astype(np.float64)
        (chunk,) = encode_chunks(steps, walls, values)
        for found, wanted in zip(decode_chunk(chunk.n, chunk.codec, chunk.data), (steps, walls, values), strict=True):
            assert found.tobytes() == wanted.tobytes()
        whole = Block(("a", "b"), steps, walls, np.stack([values, walls]))
        again = decode_blocks(2, len(steps), [encode_block(whole)])
        for found, wanted in zip(again, (steps, walls, whole.values), strict=True):
            assert found.tobytes() == wanted.tobytes()

    def test_regular_steps_cost_nothing_and_short_floats_half(self):
        walls = np.zeros(1000)
        (regular,) = encode_chunks(np.arange(0, 5000, 5), walls, np.full(1000, 0.5))
        (irregular,) = encode_chunks(np.arange(1000) ** 2, walls, np.full(1000, 0.1))
        assert len(regular.data) == 16 + 8000 + 4000
        assert len(irregular.data) == 8000 + 8000 + 8000

    @given(st.lists(ANY, min_size=1, max_size=700))
    def test_a_sketch_misses_no_extreme(self, values):
        array = np.array(values)
        sketch = Sketch.decode(Sketch.of(np.arange(len(array)), array).encode())
        finite = array[np.isfinite(array)]
        assert (sketch.count.sum(), sketch.finite.sum()) == (len(array), len(finite))
        if len(finite):
            assert np.nanmin(sketch.low) == finite.min()
            assert np.nanmax(sketch.high) == finite.max()


class TestPoints:
    @settings(max_examples=40)
    @given(
        batches=st.lists(
            st.tuples(st.sampled_from(["a", "ab", "b", "abc"]), st.integers(1, 3000)), min_size=1, max_size=12
        ),
        data=st.data(),
    )
    def test_what_goes_in_comes_out(self, tmp_path_factory, batches, data):
        store = open_store(str(tmp_path_factory.mktemp("s") / "s.db"))
        run, step, wanted = new_run(store), 0, {}
        for keys, count in batches:
            steps = np.arange(step + 1, step + 1 + count)
            step += count
            values = np.random.default_rng(step).normal(size=(len(keys), count))
            values[0, 0] = np.nan
            store.append_points(run, 1, [Block(tuple(keys), steps, steps / 10, values)])
            for row, key in enumerate(keys):
                wanted.setdefault(key, []).append((steps, values[row]))
        for key, parts in wanted.items():
            steps, values = (np.concatenate(c) for c in zip(*parts, strict=True))
            found = store.read_points(run, key)
            assert found.steps.tolist() == steps.tolist()
            assert found.values.tobytes() == values.tobytes()
            assert np.array_equal(found.walls, steps / 10)
            low, high = sorted((data.draw(st.integers(0, step)), data.draw(st.integers(0, step))))
            cut = store.read_points(run, key, low, high)
            assert cut.steps.tolist() == [s for s in steps.tolist() if low <= s <= high]
        heads = {h.key: h for h in store.heads(run)}
        assert {k: h.num_points for k, h in heads.items()} == {k: sum(len(s) for s, _ in p) for k, p in wanted.items()}

    def test_points_are_compacted_into_chunks(self, store):
        run = new_run(store)
        for start in range(0, 3 * CHUNK, 500):
            store.append_points(run, 1, [block(range(start, start + 500), x=np.arange(500.0), y=np.zeros(500))])
        db = sqlite3.connect(store.database.path)
        chunks = db.execute("SELECT count(*), sum(n), max(n) FROM chunk").fetchone()
        opened = db.execute("SELECT count(*), coalesce(sum(n), 0) FROM flush").fetchone()
        assert chunks[2] <= CHUNK
        assert chunks[1] / 2 + opened[1] == 12_500 - 12_500 % 500
        assert opened[1] < CHUNK

    def test_the_last_value_of_a_step_counts_and_late_steps_are_welcome(self, store):
        run = new_run(store)
        store.append_points(run, 1, [block([5, 1, 9, 5], x=[1.0, 2.0, 3.0, 4.0])])
        store.append_points(run, 1, [block([3], x=[7.0])])
        found = store.read_points(run, "x")
        assert dict(zip(found.steps.tolist(), found.values.tolist(), strict=True)) == {1: 2.0, 3: 7.0, 5: 4.0, 9: 3.0}

    def test_nan_and_infinities_are_stored_as_such(self, store):
        run = new_run(store)
        store.append_points(run, 1, [block([1, 2, 3, 4], x=[np.inf, -np.inf, np.nan, 1.0])])
        assert str(store.read_points(run, "x").values.tolist()) == "[inf, -inf, nan, 1.0]"
        store.append_points(run, 1, [block([5], x=[np.nan])])
        (head,) = store.heads(run)
        assert np.isnan(head.value)

    def test_what_is_not_there_is_empty(self, store):
        run = new_run(store)
        assert len(store.read_points(run, "nothing").steps) == 0
        store.append_points(run, 1, [])
        store.append_points(run, 1, [block([], x=[])])
        assert store.keys(run) == []


class TestResume:
    @settings(max_examples=30)
    @given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 5000)), min_size=1, max_size=5))
    def test_later_attempts_supersede_and_delete_nothing(self, tmp_path_factory, attempts):
        """Each attempt writes some steps from where it was resumed; what a reader sees is the last word on each step."""
        store = open_store(str(tmp_path_factory.mktemp("s") / "s.db"))
        run, visible, written = new_run(store), {}, 0
        for number, (start, count) in enumerate(attempts, start=1):
            if number > 1:
                assert store.resume_run(run, owner="me:2:3", before=store.owner(run)) == number
            steps = list(range(start, start + count))
            written += count
            visible = {s: v for s, v in visible.items() if s < start}
            visible.update({s: float(number) for s in steps})
            store.append_points(run, number, [block(steps, x=[float(number)] * count)])
        found = store.read_points(run, "x")
        assert dict(zip(found.steps.tolist(), found.values.tolist(), strict=True)) == visible
        assert store.read_overviews([run], ["x"], buckets=100).num_points.tolist() == [len(visible)]
        assert store.heads(run)[0].num_points == written  # nothing was deleted

    def test_evaluations_are_superseded_with_their_attempt(self, store):
        run = new_run(store)
        for step in (0, 100, 200):
            store.finish_evaluation(report(begin(store, run, 1, f"a{step}", step), step), {})
        store.resume_run(run, owner="x", before=store.owner(run))
        assert [r.progress.step for r in store.reports(run)] == [0, 100, 200]
        store.begin_attempt(run, 2, 100)
        assert [r.progress.step for r in store.reports(run)] == [0, 100]
        store.finish_evaluation(report(begin(store, run, 2, "b200", 200), 200), {})
        assert [r.progress.step for r in store.reports(run)] == [0, 100, 200]

    def test_an_evaluation_beside_training_supersedes_nothing(self, store):
        run = new_run(store)
        for step in (200, 100):
            handle = store.begin_evaluation(run, 1, f"a{step}", "t", "fp", Progress(step), "w", supersede=False)
            store.finish_evaluation(report(handle.id, step), {})
        store.resume_run(run, owner="x", before=store.owner(run))
        handle = store.begin_evaluation(run, 2, "c50", "t", "fp", Progress(50), "w", supersede=False)
        store.finish_evaluation(report(handle.id, 50), {})
        assert [r.progress.step for r in store.reports(run)] == [50, 100, 200]


def begin(store, run: int, attempt: int, identity: str, step: int) -> str:
    return store.begin_evaluation(run, attempt, identity, "t", "fp", Progress(step), "w").id


def report(id: str, step: int, status="done") -> EvalReport:
    estimate = Estimate("m", "", 0.5, 0.1, 0.3, 0.7, 0.95, 4, 4, "t", {"ok": 4})
    return EvalReport(id, "t", "fp", {}, {"engine": "fake"}, "w", status, Progress(step), [estimate], Cost(2.0), 0, 1.0)


class TestEvaluations:
    def test_an_identity_is_one_evaluation(self, store):
        run = new_run(store)
        first = store.begin_evaluation(run, 1, "id", "t", "fp", Progress(3), "w")
        store.add_outputs(first.id, [Output("a/0/0", text="x"), Output("b/0/0", error="no")])
        store.pause_evaluation(first.id, 1.5, "cancelled")
        again = store.begin_evaluation(run, 1, "id", "t", "fp", Progress(3), "w")
        assert (again.id, again.done, again.seconds) == (first.id, None, 1.5)
        assert store.outputs(first.id) == {"a/0/0": Output("a/0/0", text="x"), "b/0/0": Output("b/0/0", error="no")}
        store.add_outputs(first.id, [Output("b/0/0", text="now")])
        scores = [Score("a", "m", 1.0, samples=(1.0,)), Score("b", "m", None, state="error", note="no")]
        store.finish_evaluation(report(first.id, 3), {"m": scores})
        assert store.begin_evaluation(run, 1, "id", "t", "fp", Progress(3), "w").done == report(first.id, 3)
        assert store.scores(first.id, "m") == scores
        assert store.evaluation_seconds(run) == 2.0

    def test_a_partial_one_is_completed_not_taken_for_done(self, store):
        run = new_run(store)
        first = begin(store, run, 1, "id", 3)
        store.finish_evaluation(report(first, 3, "partial"), {})
        assert store.begin_evaluation(run, 1, "id", "t", "fp", Progress(3), "w").done is None
        assert [r.status for r in store.reports(run)] == ["partial"]

    def test_hostile_text_is_data(self, store):
        run = new_run(store)
        first = begin(store, run, 1, "id", 3)
        nasty = "\x00\x1b[31m\u202e'; DROP TABLE run; --\ud800 <script>" + "x" * 10
        store.add_outputs(first, [Output("a'/0/0", text=nasty)])
        assert store.outputs(first)["a'/0/0"].text == nasty
        store.add_outputs(first, [Output("long", text="y" * 3_000_000)])
        assert len(store.outputs(first)["long"].text) == 1 << 20

    def test_items_are_kept_once(self, store):
        store.add_items("fp", [Item("a", {"q": "x"}, 1, {"s": "1"}, "c")])
        store.add_items("fp", [Item("a", {"q": "changed"})])
        assert store.items("fp") == {"a": Item("a", {"q": "x"}, 1, {"s": "1"}, "c")}


WRITER = """
import sys
import numpy as np
from midflight.store import open_store
from midflight.store.base import Block
store, who, count = open_store(sys.argv[1]), sys.argv[2], int(sys.argv[3])
run = store.create_run("p", who, owner=who).id
for i in range(count):
    steps = np.arange(i * 50, (i + 1) * 50)
    store.append_points(run, 1, [Block(("x", "y"), steps, steps * 1.0, np.stack([steps * 1.0, steps * 2.0]))])
"""


MAKER = """
import sys
from midflight.store import open_store
for path in sys.argv[1:]:
    sys.stdin.readline()
    open_store(path)
    print("made", flush=True)
"""


class TestManyProcesses:
    def test_a_store_is_made_by_all_at_once(self, tmp_path):
        """SQLite's switch to WAL does not wait for another process that does the same: none may fail by it."""
        paths = [str(tmp_path / f"{k}.db") for k in range(40)]
        makers = [
            subprocess.Popen([sys.executable, "-c", MAKER, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(4)
        ]
        for path in paths:
            for maker in makers:
                maker.stdin.write(b"\n")
                maker.stdin.flush()
            assert [maker.stdout.readline() for maker in makers] == [b"made\n"] * 4, path
        for maker in makers:
            maker.communicate()

    def test_writers_and_a_reader_get_in_nobodys_way(self, tmp_path):
        """Eight processes make the store and write to it at once, while we read: no error, no point lost."""
        path = tmp_path / "s.db"
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"w{i}", "150"], stderr=subprocess.PIPE)
            for i in range(8)
        ]
        store = None
        while any(w.poll() is None for w in writers):
            if store is None and path.exists():
                store = open_store(str(path))
            if store is not None:
                for run in store.runs():
                    points = store.read_points(run.id, "x")
                    assert np.array_equal(points.steps, np.arange(len(points.steps)))
                    assert np.array_equal(points.values, points.steps * 1.0)
        errors = [w.communicate()[1] for w in writers]
        assert [w.returncode for w in writers] == [0] * 8, errors
        for run in open_store(str(path)).runs():
            assert len(open_store(str(path)).read_points(run.id, "y").steps) == 7500

    def test_a_store_that_is_held_is_waited_for_and_then_named(self, store, monkeypatch):
        run = new_run(store)
        other = sqlite3.connect(store.database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.database.connection.execute("PRAGMA busy_timeout=50")
        with pytest.raises(StoreError, match="another process has held it for more than 30 s"):
            store.append_points(run, 1, [block([1], x=[1.0])])
        other.execute("ROLLBACK")
        store.append_points(run, 1, [block([1], x=[1.0])])
        assert len(store.read_points(run, "x").steps) == 1


class TestFaults:
    def test_a_full_disk_loses_nothing_that_was_there_and_writes_nothing_by_half(self, store):
        run = new_run(store)
        store.append_points(run, 1, [block(range(100), x=np.arange(100.0))])
        db = store.database.connection
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(StoreError, match="the disk is full.*nothing that was written before is lost"):
            for i in range(1, 50):
                store.append_points(
                    run, 1, [block(range(i * 100, i * 100 + 100), x=np.random.default_rng(i).normal(size=100))]
                )
        before = len(store.read_points(run, "x").steps)
        assert before % 100 == 0
        db.execute("PRAGMA max_page_count=100000")
        store.append_points(run, 1, [block(range(9000, 9100), x=np.zeros(100))])
        assert len(store.read_points(run, "x").steps) == before + 100

    def test_a_damaged_file(self, tmp_path):
        path = tmp_path / "s.db"
        path.write_bytes(b"this is no database" * 100)
        with pytest.raises(StoreError, match=r"s\.db: it is no SQLite file .*move it away"):
            open_store(str(path))

    def test_a_damaged_page(self, tmp_path):
        path = tmp_path / "s.db"
        store = open_store(str(path))
        run = new_run(store)
        for i in range(20):
            store.append_points(
                run, 1, [block(range(i * 4096, (i + 1) * 4096), x=np.random.default_rng(i).normal(size=4096))]
            )
        store.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.close()
        content = bytearray(path.read_bytes())
        content[16384 * 2 :] = os.urandom(len(content) - 16384 * 2)
        path.write_bytes(content)
        with pytest.raises(StoreError, match="damaged"):
            again = open_store(str(path))
            again.runs()
            again.read_points(run, "x")

    def test_a_file_of_another_program(self, tmp_path):
        path = tmp_path / "s.db"
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
        with pytest.raises(StoreError, match="is an SQLite file of another program"):
            open_store(str(path))
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]

    def test_a_store_of_a_newer_version(self, tmp_path):
        store = open_store(str(tmp_path / "s.db"))
        store.database.connection.execute("PRAGMA user_version=99")
        store.close()
        with pytest.raises(StoreError, match=r"store version; got 99; allowed: up to 2; .*upgrade"):
            open_store(str(tmp_path / "s.db"))

    def test_places_that_cannot_be(self, tmp_path):
        with pytest.raises(StoreError, match="its folder does not exist"):
            open_store(str(tmp_path / "no" / "s.db"))
        with pytest.raises(StoreError, match=r"no store at .*--store or \$MIDFLIGHT_STORE"):
            open_store(str(tmp_path / "s.db"), create=False)
        with pytest.raises(ConfigError, match="store; got 'postgres://x/y'"):
            open_store("postgres://x/y")
        (tmp_path / "folder.db").mkdir()
        with pytest.raises(StoreError):
            open_store(str(tmp_path / "folder.db"))

    def test_urls(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        open_store().close()
        assert (tmp_path / "midflight.db").is_file()
        monkeypatch.setenv("MIDFLIGHT_STORE", f"sqlite:///{tmp_path}/other.db")
        open_store().close()
        assert (tmp_path / "other.db").is_file()

    def test_a_forked_child_has_a_connection_of_its_own(self, store):
        run = new_run(store)
        child = os.fork()
        if child == 0:
            store.append_points(run, 1, [block([1], x=[1.0])])
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        store.append_points(run, 1, [block([2], x=[2.0])])
        assert store.read_points(run, "x").values.tolist() == [1.0, 2.0]


def test_who_only_reads_writes_nothing_and_makes_no_file(tmp_path):
    path = tmp_path / "a.db"
    with pytest.raises(StoreError, match="no store at"):
        open_store(str(path), create=False, read_only=True)
    writer = open_store(str(path))
    run = writer.create_run("p", "a", owner="x")
    reader = open_store(str(path), create=False, read_only=True)
    with pytest.raises(StoreError, match="cannot be written to"):
        reader.beat(run.id)
    writer.create_run("p", "b", owner="x")
    assert [one.name for one in reader.runs()] == ["b", "a"]
    for store in (reader, writer):
        store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]
    path.unlink()
    with pytest.raises(StoreError, match="no store at"):
        reader.runs()
    assert not path.exists()


def test_a_file_that_took_the_place_of_another_is_not_read_as_the_same(tmp_path):
    path = tmp_path / "a.db"
    open_store(str(path)).close()
    reader = open_store(str(path), create=False, read_only=True)
    other = open_store(str(tmp_path / "b.db"))
    other.close()
    (tmp_path / "b.db").replace(path)
    with pytest.raises(StoreError, match="another file"):
        reader.runs()


@pytest.mark.parametrize("name", ["a b.db", "a?mode=ro.db", "a#b.db", "a%41.db", "ä’汉.db"])
def test_a_file_may_have_any_name(tmp_path, name):
    store = open_store(str(tmp_path / name))
    store.create_run("p", "a", owner="x")
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert len(open_store(str(tmp_path / name), create=False, read_only=True).runs()) == 1
