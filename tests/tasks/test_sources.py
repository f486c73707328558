"""Where rows come from; a broken source gives one line that names file, line and cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from midflight.errors import ConfigError, TaskError, UnknownKeyError
from midflight.metrics import load_metric
from midflight.records import Output
from midflight.tasks import Task, load_task
from midflight.tasks.sources.file import FileSource
from midflight.tasks.sources.reasoning_gym import ReasoningGymSource

ROWS = [{"q": "1+1", "a": "2"}, {"q": "naïve – 日本", "a": "3"}]


def rows(path, **options):
    return [dict(row.data) for row in FileSource(path=str(path), **options).rows()]


def test_the_same_rows_from_every_format(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps(r) for r in ROWS) + "\n\n", encoding="utf-8")
    (tmp_path / "bom.jsonl").write_text("\n".join(json.dumps(r) for r in ROWS), encoding="utf-8-sig")
    (tmp_path / "r.json").write_text(json.dumps(ROWS), encoding="utf-8")
    (tmp_path / "r.csv").write_text("q,a\n1+1,2\nnaïve – 日本,3\n", encoding="utf-8")
    (tmp_path / "r.tsv").write_text("q\ta\n1+1\t2\nnaïve – 日本\t3\n", encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "r.parquet")
    for name in ("r.jsonl", "bom.jsonl", "r.json", "r.csv", "r.tsv", "r.parquet"):
        assert rows(tmp_path / name) == ROWS, name
    (tmp_path / "noending").write_text(json.dumps(ROWS[0]))
    assert rows(tmp_path / "noending", format="jsonl") == ROWS[:1]


GOOD = json.dumps({"q": "x", "a": "1"}) + "\n"

BROKEN = [
    (
        "bad.jsonl",
        (GOOD * 16 + '{"q": "x" "a": 1}\n').encode(),
        r"bad\.jsonl:17: not valid JSON: Expecting ',' .* column 11",
    ),
    ("cut.jsonl", (GOOD + '{"q": "x",\n').encode(), r"cut\.jsonl:2: not valid JSON: .* at column 11$"),
    ("open.jsonl", (GOOD + '{"q": "x\r\n').encode(), r"open\.jsonl:2: not valid JSON: Unterminated .* at column 7$"),
    ("deep.jsonl", (GOOD + "[" * 100_000).encode(), r"deep\.jsonl:2: not valid JSON: nested too deeply"),
    ("cut.json", b'[{"a": 1},\n{"a": 2},\n\n', r"cut\.json:2: not valid JSON: .* at column 10$"),
    ("list.jsonl", (GOOD + "[1]\n").encode(), r"list\.jsonl:2: a row must be an object of named columns; got \[1\]"),
    (
        "latin.jsonl",
        GOOD.encode() + '{"q": "é"}'.encode("latin-1"),
        r"latin\.jsonl:2: not UTF-8: byte 0xe9 at column 8",
    ),
    ("empty.jsonl", b"", r"empty\.jsonl: no rows in it"),
    ("blank.jsonl", b"\n\n  \n", r"blank\.jsonl: no rows in it"),
    ("bad.json", b'[{"a": 1},\n{"a" 2}]', r"bad\.json:2: not valid JSON"),
    ("dict.json", b'{"a": 1}', r"dict\.json: must hold a list of objects; got 'dict'"),
    ("ragged.csv", b"q,a\n1,2\n3\n", r"ragged\.csv:3: 1 cells in a file of 2 columns"),
    ("twice.csv", b"q,q\n1,2\n", r"twice\.csv:1: a column name stands twice"),
    ("quote.csv", b'q,a\n"x"y,2\n', r"quote\.csv:2: not valid CSV"),
    ("bad.parquet", b"PAR1garbagePAR1", r"bad\.parquet: not a readable Parquet file"),
    ("what.xml", b"<a/>", r"what\.xml: unknown format '\.xml'; allowed: \.jsonl"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_a_broken_file_is_one_clear_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=message) as caught:
        rows(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TaskError, match=r"nope\.jsonl: no such file"):
        rows(tmp_path / "nope.jsonl")


def test_a_missing_column_names_the_row_and_the_columns(tmp_path):
    (tmp_path / "r.jsonl").write_text(GOOD + '{"question": "x", "a": "1"}\n')
    task = Task("t", tmp_path / "r.jsonl", prompt="{{ q }}", target="answer", metrics=["exact_match"])
    with pytest.raises(TaskError, match=r"r\.jsonl:1: target: no column 'answer'; columns: q, a"):
        _ = task.items
    task = Task("t", tmp_path / "r.jsonl", prompt="{{ q }}", target="a", metrics=["exact_match"])
    with pytest.raises(TaskError, match=r"task 't', item '000001': prompt: 'q' is undefined; columns: question, a"):
        task.requests(task.items[1], chat=False)


def test_duplicate_ids_name_both_rows(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"id": 7, "q": "x"}\n{"id": 8, "q": "x"}\n{"id": 7, "q": "y"}\n')
    task = Task("t", tmp_path / "r.jsonl", id="id", prompt="{{ q }}", metrics=["response_length"])
    with pytest.raises(TaskError, match=r"r\.jsonl:3: the id '7' stands already at .*r\.jsonl:1"):
        _ = task.items


def test_rows_from_python():
    assert [i.row for i in Task("t", ROWS, prompt="{{ q }}", metrics=["response_length"]).items] == ROWS
    assert [i.row for i in Task("t", lambda: iter(ROWS), prompt="{{ q }}", metrics=["response_length"]).items] == ROWS
    with pytest.raises(TaskError, match="rows: gave no rows"):
        _ = Task("t", [], prompt="x", metrics=["response_length"]).items
    for source in ([3], lambda: [3]):
        with pytest.raises(TaskError, match=r"^rows\[0\]: a row must be a mapping of named columns; got 3"):
            _ = Task("t", source, prompt="x", metrics=["response_length"]).items


def test_a_table_runs_no_code():
    with pytest.raises(ConfigError, match=r"a task file runs no code: give the function in Python.*got 'os:getcwd'"):
        Task("t", {"kind": "function", "function": "os:getcwd"}, prompt="x", metrics=["response_length"])


def test_unknown_sources_and_options_are_refused():
    with pytest.raises(UnknownKeyError, match="did you mean 'file'"):
        Task("t", {"kind": "fil", "path": "x"}, prompt="x", metrics=["response_length"])
    with pytest.raises(ConfigError, match=r"path: missing; unknown key 'pth'; did you mean 'path'\?"):
        Task("t", {"kind": "file", "pth": "x"}, prompt="x", metrics=["response_length"])
    with pytest.raises(TaskError, match=r"kind; got None; allowed: file, function, hub, reasoning_gym"):
        Task("t", {}, prompt="x", metrics=["response_length"])


def test_a_hub_dataset_from_a_local_copy(tmp_path):
    from datasets import Dataset, DatasetDict

    split = Dataset.from_list([{"question": "1+1?", "answer": "Two. #### 2"}])
    DatasetDict({"test": split, "train": split}).save_to_disk(str(tmp_path / "gsm8k"))
    task = load_task(f"gsm8k@{tmp_path / 'gsm8k'}")
    assert [(item.row["question"], item.target) for item in task.items] == [("1+1?", "2")]


def test_a_hub_dataset_that_is_not_to_be_had_is_one_line_with_advice():
    with pytest.raises(TaskError, match=r"openai/gsm8k:main:test: cannot be loaded: .*--task KEY@PATH") as caught:
        _ = load_task("gsm8k").items
    assert "\n" not in str(caught.value)


class TestWithoutANetwork:
    """`datasets` would try for half a minute; what is in its cache is read all the same."""

    @pytest.fixture(autouse=True)
    def _nobody_answers(self, monkeypatch):
        import datasets

        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)

    def test_only_the_cache_is_asked(self, monkeypatch):
        import datasets
        from huggingface_hub import constants

        seen = []

        def load(*args, **options):
            seen.append((datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE))
            raise ConnectionError("not in the cache")

        before = constants.HF_HUB_OFFLINE
        monkeypatch.setattr(datasets, "load_dataset", load)
        with pytest.raises(
            TaskError, match=r"not in the cache; offline\? name a local copy .* load_task\('KEY@PATH'\)"
        ):
            _ = load_task("gsm8k").items
        assert seen == [(True, True)]
        assert (False, before) == (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE)

    def test_a_name_that_is_not_found_in_time_is_no_answer(self, monkeypatch):
        import threading
        import urllib.request

        from midflight.tasks.sources import hub

        wait = threading.Event()

        def look_up(*args, **options):
            wait.wait()
            raise OSError("no such name")

        monkeypatch.setattr(hub, "PROBE_S", 0.01)
        monkeypatch.setattr(urllib.request, "urlopen", look_up)
        assert not hub._hub_answers()
        wait.set()

    def test_anything_that_it_says_is_an_answer(self, monkeypatch):
        import urllib.error
        import urllib.request

        from midflight.tasks.sources import hub

        def refuse(*args, **options):
            raise urllib.error.HTTPError("https://x", 403, "no", {}, None)

        monkeypatch.setattr(urllib.request, "urlopen", refuse)
        assert hub._hub_answers()


@pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="reasoning-gym is not installed")
class TestReasoningGym:
    def test_the_same_seed_gives_the_same_puzzles(self):
        def draw(seed):
            return [row.data["question"] for row in ReasoningGymSource(name="chain_sum", size=5, seed=seed).rows()]

        assert draw(1) == draw(1) != draw(2)

    def test_unknown_names_and_options(self):
        with pytest.raises(UnknownKeyError, match="did you mean 'chain_sum'"):
            list(ReasoningGymSource(name="chain_sums").rows())
        with pytest.raises(TaskError, match=r"reasoning_gym:chain_sum cannot be made: TypeError.*got \{'nope': 1\}"):
            list(ReasoningGymSource(name="chain_sum", options={"nope": 1}).rows())

    def test_every_generator_is_the_same_in_every_process_and_its_verifier_likes_its_answer(self):
        """Some generators depend on the hash seed, the global random stream or NumPy's; here they must not."""
        code = (
            "import sys, json; from midflight.tasks import Task\n"
            "prints = {name: Task(name, {'kind': 'reasoning_gym', 'name': name, 'size': 2}, prompt='{{ question }}',"
            " target='answer', metrics=['reasoning_gym']).fingerprint_parts()['items'] for name in json.loads(sys.argv[1])}\n"
            "print(json.dumps(prints))"
        )
        from reasoning_gym.factory import DATASETS

        names = sorted(set(DATASETS) - {"composite"})  # which mixes others, and has to be told which
        assert len(names) > 100
        elsewhere = subprocess.run(
            [sys.executable, "-c", code, json.dumps(names)],
            env={**os.environ, "PYTHONHASHSEED": "7"},
            capture_output=True,
            text=True,
            check=True,
        )
        there = json.loads(elsewhere.stdout.splitlines()[-1])
        metric, samples = load_metric("reasoning_gym"), []
        for name in names:
            source = {"kind": "reasoning_gym", "name": name, "size": 2}
            task = Task(name, source, prompt="{{ question }}", target="answer", metrics=["reasoning_gym"])
            assert task.fingerprint_parts()["items"] == there[name], name
            samples += [task.sample(item, 0, [Output("x", text=item.target)]) for item in task.items if item.target]
        grades = metric.grades(samples)
        assert len(samples) > 190
        assert [(s.item.row["puzzle"]["name"], g) for s, g in zip(samples, grades, strict=True) if g.value != 1.0] == []
