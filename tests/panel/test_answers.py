"""What the pages are told, against what the rest of Midflight says of the same store."""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import HOSTILE, N, answered, fill, solver, task

import midflight
from midflight.analyse.compare import compare
from midflight.analyse.flips import flip_curve
from midflight.analyse.trend import trends_of
from midflight.errors import ConfigError, MidflightError, NotFoundError
from midflight.panel.panel import Panel
from midflight.panel.parameters import MAX_TEXT, Ids, Names, Number, Text, split_query
from midflight.panel.plain import MOST_KEYS, encode, flat, packed
from midflight.panel.watcher import MOST_RUNS, Watcher
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store.base import Block


@pytest.fixture
def panel(filled):
    return Panel(filled, background=False, clock=lambda: 1_800_000_000.0)


@pytest.fixture
def empty(store):
    return Panel(store, background=False)


def numbers(text, kind="<f4"):
    return np.frombuffer(base64.b64decode(text), kind)


# -- parameters ------------------------------------------------------------------------------------------------------


def test_lists_keep_commas_within_names():
    given = split_query("keys=a%2Cb,c%20d,,e%26f&runs=3%2C4,5&x=")
    assert Names("keys").read(given["keys"]) == ("a,b", "c d", "e&f")
    assert Ids("runs").read(given["runs"]) == (3, 4, 5)
    assert Text("x").read(given["x"]) == ""


@given(st.text(), st.sampled_from([Text("p"), Names("p"), Ids("p"), Number("p")]))
def test_whatever_is_given_is_read_or_refused(text, parameter):
    with contextlib.suppress(ConfigError):
        json.dumps(parameter.read([text]))


@pytest.mark.parametrize("text", ["%00", "%ED%A0%80", "%FF", "x" * (MAX_TEXT + 1)])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(ConfigError):
        Text("p").read([text])


# -- JSON ------------------------------------------------------------------------------------------------------------


def test_numbers_that_json_lacks_are_texts():
    assert json.loads(encode({"a": [math.nan, math.inf, -math.inf, 1.5]})) == {
        "a": ["NaN", "Infinity", "-Infinity", 1.5]
    }
    assert json.loads(encode({"a": "\ud800"}))["a"] == "\\ud800"


def test_a_configuration_is_flat_and_bounded():
    deep = {"a": {"b": {"c": 1}}, "l": [1, 2], "n": None, "t": "x" * 1000, "e": {}}
    assert flat(deep) == {"a.b.c": 1, "l": "[1, 2]", "n": None, "t": "x" * 200, "e": "{}"}
    assert len(flat({str(i): i for i in range(1000)})) == MOST_KEYS


# -- runs ------------------------------------------------------------------------------------------------------------


def test_an_empty_store_has_answers(empty):
    assert answered(empty, "/api/projects")["projects"] == []
    assert answered(empty, "/api/runs")["runs"] == []
    assert answered(empty, "/api/series?keys=*")["series"] == []
    assert answered(empty, "/api/findings")["runs"] == []
    assert answered(empty, "/api/evaluations")["evaluations"] == []
    assert answered(empty, "/api/gates")["verdicts"] == []
    assert answered(empty, "/api/groups")["suggested"] == []
    with pytest.raises(NotFoundError):
        answered(empty, "/api/runs/1")


def test_a_run_without_anything(empty):
    Run("p", "bare", store=empty.store).finish()
    answer = answered(empty, "/api/runs/1")
    assert (answer["tasks"], answer["series"], answer["run"]["last_step"]) == ([], [], None)
    assert (answer["diagnosis"]["status"], answer["diagnosis"]["note"]) == ("off", "nothing was logged")
    with pytest.raises(ConfigError, match="evaluated tasks of these runs"):
        answered(empty, "/api/items?run=1&task=sums")
    refused = answered(empty, "/api/compare?baseline=1&candidates=1@last")["refused"]
    assert refused == [{"candidate": "1@last", "message": "run 'bare' has no finished evaluation"}]


def test_the_table_of_runs(panel):
    answer = answered(panel, "/api/runs")
    row = answer["runs"][0]
    assert (answer["total"], row["name"], row["state"], row["num_evaluations"]) == (2, "r-seed1", "finished", 8)
    assert {(one["task"], one["metric"]) for one in row["latest"]} == {("sums", "exact_match"), ("bpb", "perplexity")}
    assert row["latest"][1]["estimate"]["n"] == N
    assert answer["columns"]["config"][0] == "lr"
    assert [one["key"] for one in answer["columns"]["series"]] == ["loss", "nasty", "epoch"]
    assert answer["columns"]["axes"] == {"epoch": "epoch", "tokens": None}
    assert answer["ids"] == [2, 1]
    assert row["config"]["note"] == HOSTILE[:200]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("search=SEED0", ["r-seed0"]),
        ("search=optim.name=adam", ["r-seed1", "r-seed0"]),
        ("search=lr=2e-05", ["r-seed1"]),
        ("tag=n1", ["r-seed1"]),
        ("state=running", []),
        ("runs=1", ["r-seed0"]),
        ("sort=task.sums&order=asc", ["r-seed0", "r-seed1"]),
        ("sort=config.lr", ["r-seed1", "r-seed0"]),
        ("sort=name&order=asc&limit=1&offset=1", ["r-seed1"]),
        ("sort=train_share&limit=1&offset=5", []),
        ("project=nothing", []),
    ],
)
def test_the_table_is_filtered_and_sorted(panel, query, names):
    assert [row["name"] for row in answered(panel, f"/api/runs?{query}")["runs"]] == names


def test_a_kept_row_is_made_anew_when_its_run_changes(store):
    fill(store, runs=1, checkpoints=1, steps=3)
    panel = Panel(store, background=False)
    assert answered(panel, "/api/runs")["runs"][0]["latest"][-1]["step"] == 0
    with Run("p", "r-seed0", store=store, resume="attach") as run:
        evaluate_checkpoint(task(), solver({1}), run=run, progress=Progress(77))
    assert answered(panel, "/api/runs")["runs"][0]["latest"][-1]["step"] == 77
    assert answered(panel, "/api/runs/1")["tasks"][-1]["points"][-1]["step"] == 77


# -- the three questions ---------------------------------------------------------------------------------------------


def test_the_first_screen_says_what_compare_trend_and_flips_say(panel, filled):
    answer = answered(panel, "/api/runs/1")
    (sums,) = (one for one in answer["tasks"] if one["task"] == "sums")
    reports = filled.reports(1, "sums")
    assert [point["evaluation"] for point in sums["points"]] == [report.id for report in reports]
    assert sums["points"][sums["now"]]["estimate"]["value"] == reports[-1].estimate("exact_match").value
    both = compare("1@first", "1@last", store=filled.location).differences
    wanted = next(row for row in both if row.task == "sums")
    shown = sums["difference"]
    for name in ("value", "ci_low", "ci_high", "p_value", "p_adjusted", "n", "num_better", "num_worse", "finding"):
        assert shown[name] == getattr(wanted, name)
    (trend,) = trends_of(filled, [filled.runs(name="r-seed0")[0]], "sums")
    assert sums["trend"]["value"] == trend.slope.value
    assert sums["trend"]["improving"] == trend.slope.improving == "yes"
    assert sums["best"]["step"] == trend.best.step == 300
    assert sums["noise"]["value"] == trend.noise.value
    assert (sums["flips"]["learned"], sums["flips"]["forgotten_items"]) == (12, ["i0"])
    assert len(sums["flips"]["learned_items"]) == 12
    points = flip_curve(reports, filled, "exact_match")
    assert [one["solved"] for one in sums["flip_curve"]] == [point.solved for point in points]
    assert answer["diagnosis"]["status"] == "ready"
    assert answer["axes"] == {"epoch": "epoch", "tokens": None}
    assert [(one["kind"], one["step"]) for one in answer["markers"]] == [
        ("evaluation", 0),
        ("best", 0),
        ("evaluation", 100),
        ("evaluation", 200),
        ("evaluation", 300),
        ("best", 300),
    ]


def test_every_reference_is_one(panel):
    def held_against(reference):
        (sums,) = (
            one for one in answered(panel, f"/api/runs/1?reference={reference}")["tasks"] if one["task"] == "sums"
        )
        return sums["reference"] and (sums["reference"]["run"], sums["reference"]["step"]), sums["difference_note"]

    assert held_against("start") == ((1, 0), "")
    assert held_against("previous") == ((1, 200), "")
    assert held_against("100") == ((1, 100), "")
    assert held_against("best") == ((1, 300), "the newest checkpoint is the reference itself")
    assert held_against("run:2") == ((2, 300), "")
    assert held_against("run:2@100") == ((2, 100), "")
    assert held_against("150") == (None, "not evaluated at step 150")
    assert held_against("run:2@150") == (None, "not evaluated at step 150")
    for wrong in ("nothing", "run:x", "-1", "run:99"):
        with pytest.raises(ConfigError):
            held_against(wrong)


def test_what_was_not_asked_alike_is_not_compared(store):
    with Run("p", "a", store=store) as run:
        evaluate_checkpoint(task(), solver({1, 2}), run=run)
    with Run("p", "b", store=store) as run:
        evaluate_checkpoint(task(prompt="{{ a }} plus 1?"), solver({1, 2}), run=run)
    panel = Panel(store, background=False)
    (sums,) = answered(panel, "/api/runs/2?reference=run:1")["tasks"]
    assert sums["difference"] is None
    assert "was not the same task for both sides: prompt differ" in sums["difference_note"]
    (refused,) = answered(panel, "/api/compare?baseline=1&candidates=2")["refused"]
    assert "prompt differ" in refused["message"]


def test_another_metric_where_the_task_has_it(panel):
    tasks = {one["task"]: one["metric"] for one in answered(panel, "/api/runs/1?metric=response_length")["tasks"]}
    assert tasks == {"sums": "response_length", "bpb": "perplexity"}
    (sums,) = (one for one in answered(panel, "/api/runs/1?metric=response_length")["tasks"] if one["task"] == "sums")
    assert (sums["flips"], "no range" in sums["flips_note"]) == (None, True)
    with pytest.raises(ConfigError, match="did you mean"):
        answered(panel, "/api/runs/1?metric=response_lenght")


# -- curves ----------------------------------------------------------------------------------------------------------


def test_curves_share_their_steps_and_say_where_they_begin(panel, filled):
    answer = answered(panel, "/api/series?keys=loss,nasty&runs=1,2&walls=1")
    steps, data = numbers(answer["steps"], "<f8"), numbers(answer["data"])
    assert (answer["exact"], answer["num_buckets"], len(steps)) == (True, 400, 400)
    for one in answer["series"]:
        points = filled.read_points(one["run"], one["key"])
        shown = data[one["at"] : one["at"] + 400]
        np.testing.assert_array_equal(shown, points.values.astype("f4"))
        assert one["num_points"] == 400
        assert one["non_finite"] == ([[7, 1, "nan"]] if one["key"] == "nasty" else []) or one["non_finite"] == [
            (7, 1, "nan")
        ]
    walls = data[answer["walls"][0]["at"] :][:400]
    assert (np.diff(walls) >= 0).all()


def test_buckets_have_bands_or_one_envelope_for_all(store):
    for number in range(3):
        run = store.create_run("p", f"r{number}", owner="x:1:1").id
        values = np.zeros((1, 5000))
        values[0, 1234 + number] = 9.0
        store.append_points(run, 1, [Block(("x",), np.arange(5000), np.arange(5000.0), values)])
    panel = Panel(store, background=False)
    banded = answered(panel, "/api/series?keys=x&runs=1,2,3")
    assert (banded["width"], banded["exact"], banded["envelopes"]) == (16, False, [])
    data, count = numbers(banded["data"]), banded["num_buckets"]
    for one in banded["series"]:
        _, _, high = data[one["at"] : one["at"] + 3 * count].reshape(3, count)
        assert high.max() == 9.0
    plain = answered(panel, "/api/series?bands=0&keys=x&runs=1,2,3")
    (envelope,) = plain["envelopes"]
    low, high = numbers(plain["data"])[envelope["at"] : envelope["at"] + 2 * plain["num_buckets"]].reshape(2, -1)
    assert (low.min(), high.max(), (high == 9.0).sum()) == (0.0, 9.0, 1)
    near = answered(panel, "/api/series?high=1240&keys=x&low=1230&runs=1")
    assert numbers(near["data"])[4] == 9.0


def test_answers_are_bounded_and_say_so(store, monkeypatch):
    run = store.create_run("p", "r", owner="x:1:1").id
    keys = tuple(f"k{i:03}" for i in range(250))
    store.append_points(run, 1, [Block(keys, np.arange(3), np.arange(3.0), np.zeros((250, 3)))])
    panel = Panel(store, background=False)
    assert answered(panel, "/api/series?keys=*&runs=1")["left_out"] == ["200 of 250 series"]
    monkeypatch.setattr("midflight.panel.answers.series.MOST_NUMBERS", 6000)
    answer = answered(panel, "/api/series?keys=*&runs=1")
    assert answer["left_out"][1] == "10 of 400 buckets"


@given(st.lists(st.floats(width=32), max_size=20))
def test_packed_numbers_come_out_again(values):
    array = np.array(values, "f4")
    assert numbers(packed(array, "f4")).tobytes() == array.tobytes()


# -- items -----------------------------------------------------------------------------------------------------------


def test_the_matrix_of_items(panel):
    answer = answered(panel, "/api/items?run=1&task=sums")
    values = numbers(answer["values"]).reshape(N, 4)
    assert (answer["total"], answer["binary"], answer["reference"]) == (N, True, 0)
    by_id = {item["id"]: (item, row) for item, row in zip(answer["items"], values.tolist(), strict=True)}
    assert by_id["i0"] == ({**by_id["i0"][0], "first": True, "now": False, "flips": 1}, [1.0, 0.0, 0.0, 0.0])
    assert by_id["i5"][1] == [0.0, 1.0, 1.0, 1.0]
    assert answer["counts"] == {"learned": 12, "forgotten": 1, "flipped": 13, "solved": 13, "unsolved": 11, "failed": 0}
    assert set(numbers(answer["states"], "u1").tolist()) == {0}


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("filter=forgotten", ["i0"]),
        ("filter=learned&limit=2", ["i10", "i11"]),
        ("search=%22a%22%3A%20i7", []),
        ("filter=solved&slice=kind=odd&limit=1", ["i1"]),
        ("sort=solved&limit=1", ["i1"]),
        ("filter=failed", []),
        ("offset=23", ["i9"]),
    ],
)
def test_items_are_chosen(panel, query, ids):
    assert [item["id"] for item in answered(panel, f"/api/items?run=1&task=sums&{query}")["items"]] == ids


def test_a_metric_without_right_and_wrong_has_values_all_the_same(panel):
    answer = answered(panel, "/api/items?metric=response_length&run=1&task=sums")
    assert (answer["items"][0]["now"], "no range" in answer["note"], answer["flip_curve"]) == (None, True, [])
    assert (numbers(answer["values"]) > 0).all()


def test_an_item_side_by_side(panel):
    answer = answered(panel, "/api/item?item=i0&runs=1,2&task=sums")
    assert (answer["previous"], answer["next"]) == (None, "i1")
    assert answer["history"][0]["values"] == [1.0, 0.0, 0.0, 0.0]
    assert [(one["run"], one["step"], one["state"]) for one in answer["answers"]] == [
        (run, step, "ok") for run in (1, 2) for step in (0, 100, 300)
    ]
    assert answer["answers"][0]["outputs"][0]["text"] == {"text": "1", "length": 1}
    assert answer["answers"][1]["outputs"][0]["text"]["text"] == HOSTILE
    assert answer["answers"][0]["scores"][0]["metric"] == "exact_match"
    chosen = answered(panel, "/api/item?item=i0&runs=1&steps=200&task=sums")["answers"]
    assert [one["step"] for one in chosen] == [200]
    with pytest.raises(NotFoundError):
        answered(panel, "/api/item?item=nothing&runs=1&task=sums")


def test_ids_with_slashes_are_not_mistaken(store):
    rows = [{"id": id, "a": 1} for id in ("q", "q/0", "q/0/0", "q0", "q.")]
    odd = task("odd", 0)
    odd = type(odd)("odd", rows, id="id", prompt="{{ a }}", target="a", metrics=["exact_match"])
    with Run("p", "r", store=store) as run:
        evaluate_checkpoint(odd, type(solver(()))(lambda request: f"of {request.item_id}"), run=run)
    panel = Panel(store, background=False)
    for row in rows:
        answer = answered(panel, f"/api/item?item={row['id']}&runs=1&task=odd")
        assert [o["text"]["text"] for one in answer["answers"] for o in one["outputs"]] == [f"of {row['id']}"]


def test_long_texts_are_cut_and_can_be_had_whole(store):
    with Run("p", "r", store=store) as run:
        engine = solver(())
        engine.answers = "é" * 10_000
        evaluate_checkpoint(task(n=1), engine, run=run)
    panel = Panel(store, background=False)
    (answer,) = answered(panel, "/api/item?item=i0&runs=1&task=sums")["answers"]
    (output,) = answer["outputs"]
    assert (len(output["text"]["text"]), output["text"]["length"]) == (4000, 10_000)
    whole = answered(panel, f"/api/text?evaluation={answer['evaluation']}&request={output['request']}")
    assert whole == {"text": "é" * 10_000, "length": 10_000}
    assert answered(panel, "/api/text?column=text&item=i0&run=1&task=sums")["text"] == HOSTILE
    for wrong in ("evaluation=x&request=y", "run=1&task=sums&item=i0&column=z", "run=1&task=sums&item=z&column=a"):
        with pytest.raises(NotFoundError):
            answered(panel, f"/api/text?{wrong}")


# -- the other pages -------------------------------------------------------------------------------------------------


def test_comparison_is_that_of_the_command_line(panel, filled):
    answer = answered(panel, "/api/compare?baseline=1&candidates=2,1@first&slices=1")
    rows = compare("1", "2", "1@first", store=filled.location, slices=True).differences
    assert [one["p_adjusted"] for one in answer["differences"]] == [row.p_adjusted for row in rows]
    assert [one["candidate"] for one in answer["differences"]] == [row.candidate for row in rows]
    (lr,) = (row for row in answer["config"]["keys"] if row["key"] == "lr")
    assert lr == {"key": "lr", "values": [1e-05, 2e-05], "differs": True}
    assert {one["run"] for one in answer["curves"]} == {1, 2}
    best = answered(panel, "/api/compare?baseline=1@best&candidates=2@100&task=sums")
    assert (best["baseline"]["label"], best["differences"][0]["n"]) == ("1@best", N)


@pytest.mark.parametrize(
    "query", ["", "baseline=1", "baseline=x&candidates=1", "baseline=1&candidates=1@7", "baseline=9&candidates=1"]
)
def test_sides_that_are_none(panel, query):
    with pytest.raises(ConfigError):
        answered(panel, f"/api/compare?{query}")


def test_groups_are_suggested_and_made(panel):
    assert answered(panel, "/api/groups")["suggested"] == [r"(.+)-seed\d+"]
    answer = answered(panel, r"/api/groups?pattern=(.%2B)-seed%5Cd%2B&task=sums")
    assert [one["name"] for one in answer["groups"][0]["runs"]] == ["r-seed0", "r-seed1"]
    assert len(answer["curves"][0]["points"][0]["values"]) == 2
    with pytest.raises(ConfigError):
        answered(panel, "/api/groups?pattern=(")


def test_evaluations_that_run_wait_and_failed(store):
    fill(store, runs=1, checkpoints=1, steps=3)
    run = store.runs()[0].id
    handle = store.begin_evaluation(
        run, 1, "x", "sums", store.reports(run, "sums")[0].task_fingerprint, Progress(9), "w"
    )
    store.note_missing(run, 1, "sums", Progress(5), "busy")
    store.take_lease("job", "me")
    store.end_lease("over", store.take_lease("over", "me"))
    answer = answered(Panel(store, background=False), "/api/evaluations")
    newest = answer["evaluations"][0]
    assert (newest["id"], newest["status"], newest["num_answered"], newest["num_items"]) == (handle.id, "running", 0, N)
    assert (answer["total"], [one["name"] for one in answer["leases"]], answer["missing"][0]["reason"]) == (
        3,
        ["job"],
        "busy",
    )
    assert answer["by_run"][0]["num_evaluations"] == 2
    only = answered(Panel(store, background=False), "/api/evaluations?status=running")
    assert [one["id"] for one in only["evaluations"]] == [handle.id]


# -- what is new -----------------------------------------------------------------------------------------------------


def test_what_is_new_since_a_token(store):
    fill(store, runs=1, checkpoints=1, steps=3)
    watcher = Watcher(store)
    watcher._look()
    start = watcher.token
    assert watcher.since(start) == {"since": start, "reset": False, "runs": []}
    run = Run("p", "new", store=store)
    run.log(1, x=1.0)
    run.flush()
    watcher._look()
    (change,) = watcher.since(start)["runs"]
    assert (change["id"], change["changed"], change["last_step"]) == (run.id, ["new"], 1)
    middle = watcher.token
    run.log(2, x=1.0)
    run.finish()
    watcher._look()
    (change,) = watcher.since(middle)["runs"]
    assert (set(change["changed"]), change["state"]) == ({"points", "state"}, "finished")
    assert set(watcher.since(start)["runs"][0]["changed"]) == {"new", "points", "state"}
    watcher.note(run.id, "findings")
    assert watcher.since(watcher.token)["runs"] == []


@pytest.mark.parametrize("token", ["x", "abc.1", "0.0", "....", "9" * 100, "\0"])
def test_tokens_of_others_make_the_page_load_again(store, token):
    watcher = Watcher(store)
    watcher._look()
    assert watcher.since(token)["reset"] is True
    assert watcher.since(f"{watcher.token}999")["reset"] is True
    assert watcher.since("")["reset"] is False


def test_too_many_changes_make_the_page_load_again(store):
    watcher = Watcher(store)
    start = watcher.token
    for number in range(MOST_RUNS + 1):
        store.create_run("p", str(number), owner="x:1:1")
    watcher._look()
    assert watcher.since(start) == {"since": watcher.token, "reset": True, "runs": []}


def test_what_a_page_shows_names_no_option_of_a_command():
    """Errors of analyses are shown on pages and raised in notebooks, where there are no options."""
    folders = [Path(midflight.__file__).parent / name for name in ("analyse", "panel/answers")]
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        raised = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise))
        texts = [node.value for one in raised for node in ast.walk(one) if isinstance(node, ast.Constant)]
        assert not [text for text in texts if re.search(r"(?<![\w-])--[a-z]", str(text))], path


def test_errors_are_ours(panel):
    for url in (
        "/api/runs/x",
        "/api/nothing",
        "/api/items",
        "/api/item",
        "/api/text",
        "/api/scaling",
        "/api/scaling?runs=1&by=z",
    ):
        with pytest.raises(MidflightError):
            answered(panel, url)
