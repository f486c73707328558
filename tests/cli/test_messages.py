"""What is said where something is not as the user thinks: what there is instead, which file it is, why nothing is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from midflight.analyse.gradient_watch import GradientWatch
from midflight.cli import app
from midflight.engines import Fake
from midflight.errors import ConfigError, MidflightError
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store import open_store
from midflight.tasks import load_task

TASK = 'source = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}"\ntarget = "a"\nmetrics = ["exact_match"]\n'


@pytest.fixture
def store():
    """Runs `a` and `b` of project `one`, evaluated by sums at steps 0 and 10, and `c` of project `two`, by others too."""
    rows = "".join(json.dumps({"q": f"{n}+1=", "a": n + 1}) + "\n" for n in range(8))
    Path("rows.jsonl").write_text(rows)
    Path("sums.toml").write_text(TASK)
    Path("others.toml").write_text(TASK.replace("{{ q }}", "Q: {{ q }}"))
    store = open_store()
    for project, name, tasks in (("one", "a", ["sums"]), ("one", "b", ["sums"]), ("two", "c", ["sums", "others"])):
        with Run(project, name, store=store) as run:
            for step in (0, 10):
                for task in tasks:
                    evaluate_checkpoint(load_task(f"{task}.toml"), Fake("4"), run=run, progress=Progress(step))
    return store


def call(*arguments: object) -> str:
    """What a command prints, or the message with which it ends."""
    done = CliRunner().invoke(app, [*map(str, arguments)], standalone_mode=False)
    if done.exception is None:
        return done.output
    if isinstance(done.exception, MidflightError):
        return done.exception.message
    return done.exception.format_message()  # type: ignore[attr-defined]  # typer's own


@pytest.mark.parametrize(
    "command",
    [["runs"], ["sweep", "-m", "exact_match"], ["sweep", "a", "b", "-m", "exact_match"], ["groups", "a*"], ["audit"]],
    ids=" ".join,
)
def test_a_project_that_is_not_there_is_told_from_an_empty_one(store, command):
    told = "no project 'nope' in sqlite:///midflight.db; there are: one, two"
    assert call(*command, "--project", "nope") == told


def test_a_run_of_another_project_is_not_there(store):
    assert call("sweep", "a", "c", "-m", "exact_match", "--project", "one") == (
        "no run 'c' in project 'one' of sqlite:///midflight.db; there are: b, a"
    )


def test_audit_of_an_execution_that_is_not_there(store):
    assert call("audit", "12ab") == "no execution '12ab' in sqlite:///midflight.db; there are: none"
    assert call("audit", "--project", "one") == "no workflow of this project was carried out yet\n"


def test_flips_asks_for_a_task_in_words(store):
    assert call("flips", "c") == "run 'c' has 2 tasks; name one: --task others | sums"
    with Run("one", "empty", store=store):
        pass
    assert call("flips", "empty") == "run 'empty' has no finished evaluation; midflight show empty"


EMPTY = [["compare", "", "a"], ["diagnose", ""], ["savings", ""], ["show", ""], ["trend", ""], ["scaling", ""]]


@pytest.mark.parametrize("command", EMPTY, ids=" ".join)
def test_an_empty_name_is_not_the_folder_that_one_is_in(store, command):
    assert call(*command).startswith("no run '' in sqlite:///midflight.db; there are: c, b, a")


@pytest.mark.parametrize(
    "command",
    [
        ["watch", "", "-t", "sums.toml"], ["import", ""], ["gate", ""], ["act", ""], ["store", "backup", ""],
        ["export", "a", "--out="], ["plot", "a", "-m", "exact_match", "-o", ""], ["report", "a", "-o", ""],
        ["flips", "a", "-o", ""], ["eval", "fake:4", "-t", "sums.toml", "-o", ""], ["gate", "p.toml", "--report", ""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_empty_path_is_none(store, command):
    assert call(*command).endswith("an empty text is no path")


def test_an_empty_store_is_not_the_default_one(store):
    assert call("runs", "--store", "") == "store; got ''; allowed: sqlite:///FILE, or a file's path"


class TestFiles:
    def test_a_folder_that_is_called_like_a_file_is_passed_over(self, store):
        Path("results/x.json").mkdir(parents=True)
        Path("results/junk.json").write_bytes(b"\xff\xfe")
        assert call("compare", "results", "a") == "result files in results; got 0; allowed: one"

    def test_the_file_at_fault_is_named(self, store):
        call("eval", "fake:4", "-t", "sums.toml", "-o", "good.json")
        Path("bad.json").write_text('{"schema_version": 1}')
        Path("broken.json").write_text("{")
        assert call("compare", "good.json", "bad.json") == "bad.json: not a report of schema 1: id: Field required"
        assert call("compare", "broken.json", "good.json").startswith("broken.json: not a report of schema 1: ")


class TestCatalog:
    def test_a_section_is_printed(self):
        assert call("catalog", "engines").splitlines()[0] == "engines"
        assert "  fake  " in call("catalog", "engines")
        assert "metrics\n" not in call("catalog", "engines")
        assert call("catalog", "steps") == call("catalog", "steps of a workflow")
        assert list(json.loads(call("catalog", "metrics", "--json"))) == ["metrics"]
        everything = call("catalog")
        for section in ("tasks", "metrics", "engines", "sources", "importers", "detectors", "kinds", "steps"):
            assert call("catalog", section) in everything

    def test_one_of_them_is_json_too(self):
        assert json.loads(call("catalog", "arc", "--json"))["arc"] == call("catalog", "arc").removesuffix("\n")


class TestImport:
    LABELS = [{"id": 0, "label": "cat"}, {"id": 1, "label": "dog"}, {"id": 2, "label": "dog"}]

    @pytest.mark.parametrize(
        "rows",
        [LABELS, [{"name": "x", "age": 3}, {"name": "y", "age": 4}], [{"prompt": "a", "reward": 1.0}] * 3],
        ids=["labels", "people", "samples"],
    )
    def test_a_file_that_is_no_log_makes_no_run(self, rows):
        Path("rows.json").write_text(json.dumps(rows))
        Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        told = call("import", "rows.json")
        assert told.startswith(
            "log rows.json: JSON records without a record of a training in it; allowed: records with"
        )
        assert f"not read: {len(rows)} rows that are no record, first: " in told or "texts among the values" in told
        assert "rows.jsonl" in call("import", "rows.jsonl")
        assert open_store().runs() == []

    def test_a_table_of_other_things_makes_no_run(self):
        Path("people.csv").write_text("name,age\na,3\nb,4\nc,5\n")
        assert "without a record of a training" in call("import", "people.csv")

    def test_a_long_one_is_refused_row_by_row(self):
        Path("long.jsonl").write_text("".join(json.dumps({"label": "x", "n": n}) + "\n" for n in range(700)))
        assert "700 rows that are no record" in call("import", "long.jsonl")

    @pytest.mark.parametrize("rows", [[{"n_tok": 3.0}, {"n_tok": 2.0}], [{"loss": 2.0, "phase": "a"}] * 2])
    def test_numbers_alone_and_known_names_are_a_log(self, rows):
        Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        call("import", "rows.jsonl")
        assert len(open_store().runs()) == 1

    def test_a_broken_line_is_counted_once(self):
        Path("log.jsonl").write_text('{"step": 1, "loss": 2}\n{"step": 2, "loss": \n{"step": 3, "loss": 1}\nhello\n')
        (found,) = json.loads(call("import", "log.jsonl", "--json"))
        assert [(one["kind"], one["count"], one["example"]) for one in found["unread"]] == [
            ("broken JSON", 1, '{"step": 2, "loss": '),
            ("other lines", 1, "hello"),
        ]


class TestGroups:
    def test_one_group_says_why_there_are_no_differences(self, store):
        told = "no differences: there is one group, a*; name another, or a pattern with a group\n"
        assert call("groups", "a*").endswith(told)

    def test_groups_that_were_not_evaluated_alike_say_so(self, store):
        assert "no difference" not in call("groups", "a", "b")
        with Run("one", "d", store=store) as run:
            evaluate_checkpoint(load_task("sums.toml"), Fake("4"), run=run, progress=Progress(5))
        with Run("one", "e", store=store) as run:
            evaluate_checkpoint(load_task("others.toml"), Fake("4"), run=run, progress=Progress(0))
        with Run("one", "f", store=store) as run:
            Path("rows.jsonl").write_text(json.dumps({"q": "1", "a": "4"}) + "\n")
            evaluate_checkpoint(load_task("sums.toml"), Fake("4"), run=run, progress=Progress(0))
        found = json.loads(call("groups", "a", "b", "d", "e", "f", "--json"))
        assert [(one["second"], one["first"]) for one in found["differences"]] == [("b", "a")]
        assert found["not_compared"] == [
            "no difference d − a by sums exact_match: no step that both measured: 0, 10 | 5",
            "no difference e − a by sums exact_match: the second was not evaluated by it",
            "no difference e − a by others exact_match: the first was not evaluated by it",
            "no difference f − a by sums exact_match: they were not evaluated alike: items",
        ]


@pytest.mark.parametrize("optimizer", [None, object(), "adam"])
def test_a_watch_of_no_optimiser_is_refused(optimizer):
    torch = pytest.importorskip("torch")
    with pytest.raises(ConfigError, match=r"optimizer; got .*; allowed: a torch\.optim\.Optimizer"):
        GradientWatch(torch.nn.Linear(2, 2), optimizer)
    with pytest.raises(ConfigError, match=r"model; got None; allowed: a torch\.nn\.Module"):
        GradientWatch(None, torch.optim.SGD(torch.nn.Linear(2, 2).parameters()))


def test_no_number_that_is_shown_is_minus_zero(store):
    Path("policy.toml").write_text(
        'name = "p"\n[[rules]]\ntask = "sums"\nmetric = "exact_match"\nmax_drop = 0\n'
        '[[rules]]\nname = "r"\ntask = "sums"\nmetric = "exact_match"\nmust_improve = -0.0\n'
    )
    out = call("gate", "policy.toml", "--candidate", "a", "--baseline", "b", "--out-dir", "gate")
    texts = [out, *(path.read_text() for path in Path("gate").iterdir() if path.suffix != ".json")]
    assert "bound" in out or "above" in out or "alike" in out, out
    for text in texts:
        assert not re.search(r"(?<![\w.])-0(?:\.0+)?(?![\w.])", text), text
