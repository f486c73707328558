"""Comparisons: paired by item, refused where they would mislead, equal to what other tools compute on real data."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

import midflight as mf
from midflight.analyse.compare import compare
from midflight.analyse.evidence import named_sides, side_of
from midflight.analyse.flips import flip_curve, flips
from midflight.analyse.pairing import pair
from midflight.engines import Fake
from midflight.errors import ConfigError, UnknownKeyError
from midflight.metrics import BaseMetric
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.schema import report_to_json
from midflight.tasks import Task

N = 40


def task(name="sums", n=N, **spec):
    rows = [{"id": f"i{a}", "a": a, "kind": "even" if a % 2 == 0 else "odd", "family": f"f{a // 4}"} for a in range(n)]
    fields = {"id": "id", "prompt": "{{ a }}+1=", "target": "a + 1", "metrics": ["exact_match", "response_length"]}
    return Task(name, rows, **{**fields, **spec})


def solves(*solved: int):
    """A model that answers these items right."""
    return Fake(lambda request: str(int(request.item_id[1:]) + 1 if int(request.item_id[1:]) in solved else -1))


def evaluate(store, run, engine, *tasks, step=0, seed=0):
    engine.version = f"{run}-{step}"
    with Run("p", run, store=store, resume="attach") as opened:
        return [evaluate_checkpoint(one, engine, run=opened, progress=Progress(step), seed=seed) for one in tasks]


@pytest.fixture
def url(store):
    return store.location


def test_items_are_paired_and_mcnemar_is_statsmodels(store, url):
    evaluate(store, "base", solves(*range(20)), task())
    evaluate(store, "tuned", solves(*range(3, 32)), task())
    (row,) = compare("base", "tuned", store=url).differences
    assert (row.value, row.num_better, row.num_worse, row.n) == (9 / 40, 12, 3, 40)
    theirs = mcnemar([[17, 12], [3, 8]], exact=True)
    assert (row.p_value, row.test) == (pytest.approx(theirs.pvalue), "exact McNemar")
    assert (row.finding, row.candidate_value, row.baseline_value) == ("better", 29 / 40, 0.5)
    a, b = np.arange(40) < 20, (np.arange(40) >= 3) & (np.arange(40) < 32)
    assert row.correlation == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert row.stderr == pytest.approx(stats.sem(b.astype(float) - a))


def test_several_tasks_and_candidates_are_one_family(store, url):
    tasks = [task("sums"), task("more", prompt="{{ a }} + 1 =")]
    evaluate(store, "base", solves(*range(20)), *tasks)
    evaluate(store, "one", solves(*range(27)), *tasks)
    evaluate(store, "two", solves(*range(13, 20)), *tasks)
    found = compare("base", "one", "two", store=url)
    assert [(row.candidate, row.task) for row in found.differences] == [
        (candidate, name) for candidate in ("one", "two") for name in ("more", "sums")
    ]
    p_values = [row.p_value for row in found.differences]
    assert [row.p_adjusted for row in found.differences] == pytest.approx(
        list(multipletests(p_values, method="holm")[1])
    )
    one, two = found.overall
    assert (one.value, two.value) == pytest.approx((7 / 40, -13 / 40))
    assert one.stderr == pytest.approx(math.sqrt(2) * found.differences[0].stderr / 2)


def test_a_lower_is_better_metric_turns_the_words_around(store, url):
    class Wordiness(BaseMetric):
        higher_is_better = False

        def compute(self, predictions, labels):
            return sum(map(len, predictions)) / len(predictions)

    evaluate(store, "base", solves(*range(20)), task())
    evaluate(store, "tuned", solves(*range(3, 32)), task())
    row = compare("base", "tuned", store=url, metrics=["response_length"]).differences[0]
    assert (row.higher_is_better, row.finding) == (None, "undecided" if row.p_adjusted > 0.05 else "different")
    with Run("p", "base2", store=store) as run:
        evaluate_checkpoint(task(), Fake("12345"), run=run, registered={"wordiness": Wordiness})
    with Run("p", "tuned2", store=store) as run:
        evaluate_checkpoint(task(), Fake("1"), run=run, registered={"wordiness": Wordiness})
    row = compare("base2", "tuned2", store=url, metrics=["wordiness"]).differences[0]
    assert row.method.startswith("unpaired")
    assert "item scores are not kept" in row.note


def test_samples_of_an_item_are_averaged_before(store, url):
    sampled = task(metrics=["exact_match", "avg@4"], samples=4, sampling={"temperature": 1.0})
    draw = random.Random(0)

    def lucky(share):
        return Fake(lambda request: str(int(request.item_id[1:]) + 1) if draw.random() < share else "-1")

    evaluate(store, "base", lucky(0.4), sampled)
    evaluate(store, "tuned", lucky(0.6), sampled)
    base, tuned = (
        [score.value for score in store.scores(side_of(store, run).of("sums").report.id, "avg@4")]
        for run in ("base", "tuned")
    )
    row = compare("base", "tuned", store=url, metrics=["avg@4"]).differences[0]
    theirs = stats.ttest_rel(tuned, base)
    assert (row.p_value, row.test) == (pytest.approx(theirs.pvalue), "t")
    interval = theirs.confidence_interval()
    assert (row.ci_low, row.ci_high) == pytest.approx((interval.low, interval.high))


def test_clusters_of_items_are_the_units(store, url):
    clustered = task(cluster="family")
    evaluate(store, "base", solves(*range(20)), clustered)
    evaluate(store, "tuned", solves(*range(32)), clustered)
    row = compare("base", "tuned", store=url).differences[0]
    sums = np.array([0, 0, 0, 0, 0, 4, 4, 4, 0, 0])
    exact = stats.permutation_test((sums,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert (row.test, row.p_value) == ("exact sign-flip", pytest.approx(exact.pvalue))
    assert row.stderr == pytest.approx(stats.sem(sums / 4))
    assert row.finding == "undecided"  # independent items would have been "better"


def test_slices_are_rows_of_their_own(store, url):
    sliced = task(slices={"kind": "kind"})
    evaluate(store, "base", solves(*range(20)), sliced)
    evaluate(store, "tuned", solves(*range(0, 40, 2)), sliced)
    rows = {row.slice: row for row in compare("base", "tuned", store=url, slices=True).differences}
    assert {name: (row.value, row.n) for name, row in rows.items()} == {
        "": (0.0, 40), "kind=even": (0.5, 20), "kind=odd": (-0.5, 20),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("prompt", {"prompt": "{{ a }} plus 1:"}),
        ("grader", {"metrics": ["exact_match"]}),
        ("sampling", {"sampling": {"max_tokens": 3}}),
    ],
)
def test_what_was_asked_otherwise_is_refused_and_says_in_which_part(store, url, part, changes):
    evaluate(store, "base", solves(1, 2), task())
    evaluate(store, "tuned", solves(1, 2, 3), task(**changes))
    with pytest.raises(
        ConfigError, match=rf"'sums' was not the same task for both sides: {part} differ.*compare across {part}"
    ):
        compare("base", "tuned", store=url)
    row = compare("base", "tuned", store=url, across=[part]).differences[0]
    assert (row.n, row.note) == (40, f"other {part}")


def test_other_items_are_refused_and_the_common_ones_are_paired_by_what_they_say(store, url):
    evaluate(store, "base", solves(*range(10)), task(n=20, id=None))
    shifted = [
        {"id": f"i{a}", "a": a, "kind": "even" if a % 2 == 0 else "odd", "family": f"f{a // 4}"} for a in range(10, 30)
    ]
    other = Task("sums", shifted, prompt="{{ a }}+1=", target="a + 1", metrics=["exact_match", "response_length"])
    evaluate(store, "tuned", Fake(lambda request: str(int(request.item_id) + 11)), other)
    with pytest.raises(ConfigError, match="items differ.*compare only the common items"):
        compare("base", "tuned", store=url)
    row = compare("base", "tuned", store=url, only_common_items=True).differences[0]
    assert (row.n, row.value, row.only_candidate, row.only_baseline) == (10, 1.0, 10, 10)
    assert "10 common items" in row.note


def test_items_without_a_score_are_left_out_and_counted(store, url):
    evaluate(store, "base", solves(*range(20)), task())
    broken = solves(*range(40))
    broken.fail = frozenset({"i0", "i1", "i39"})
    evaluate(store, "tuned", broken, task())
    row = compare("base", "tuned", store=url).differences[0]
    assert (row.n, row.num_better, row.only_baseline, row.only_candidate) == (37, 19, 3, 0)


def test_a_model_against_itself_is_told_and_finds_nothing(store, url):
    evaluate(store, "base", solves(*range(20)), task())
    row = compare("base", "base", store=url).differences[0]
    assert (row.value, row.p_value, row.finding, row.note) == (
        0.0,
        1.0,
        "undecided",
        "the same evaluation on both sides",
    )


def test_steps_of_one_run_and_reports_of_files(store, url, tmp_path):
    for step, solved in ((0, 5), (100, 20), (200, 30)):
        report = evaluate(store, "run", solves(*range(solved)), task(), step=step)[0]
    assert compare("run@first", "run@last", store=url).differences[0].value == 25 / 40
    assert compare("run@100", "p/run", store=url).differences[0].value == 10 / 40
    (tmp_path / "report.json").write_text(f"[{report_to_json(report)}]")
    row = compare("run@0", "report.json", store=url).differences[0]
    assert (row.method, row.note) == ("unpaired, normal", "unpaired: item scores are not kept on one side")
    assert row.stderr == pytest.approx(math.hypot(stats.sem([1] * 5 + [0] * 35), stats.sem([1] * 30 + [0] * 10)))
    with pytest.raises(ConfigError, match="step of run 'run'.*150.*first, last, 0, 100, 200"):
        compare("run@150", "run", store=url)
    with pytest.raises(ConfigError, match="there are: run"):
        compare("nobody", "run", store=url)


def test_what_cannot_be_compared_is_an_error_that_says_what_can(store, url):
    evaluate(store, "base", solves(1), task())
    evaluate(store, "other", solves(1), task("else"))
    with pytest.raises(ConfigError, match="no task was evaluated on both sides"):
        compare("base", "other", store=url)
    with pytest.raises(UnknownKeyError, match="evaluated tasks of other"):
        compare("base", "other", store=url, tasks=["sums"])
    with pytest.raises(UnknownKeyError, match="exact_mach.*exact_match"):
        compare("base", "base", store=url, metrics=["exact_mach"])
    with pytest.raises(ConfigError, match="level"):
        compare("base", "base", store=url, level=1.5)
    with pytest.raises(ConfigError, match="nothing to compare"):
        compare("base", store=url)


def test_the_order_of_runs_only_turns_signs(store, url):
    evaluate(store, "a", solves(*range(20)), task())
    evaluate(store, "b", solves(*range(3, 32)), task())
    forward, back = (compare(*names, store=url).differences[0] for names in (("a", "b"), ("b", "a")))
    assert (forward.value, forward.ci_low, forward.p_value) == pytest.approx((-back.value, -back.ci_high, back.p_value))


def test_perplexities_are_paired_as_ratios(store, url):
    texts = Task(
        "text", [{"text": "word " * (3 + a)} for a in range(30)], kind="loglikelihood", text="{{ text }}",
        metrics=["perplexity"],
    )  # fmt: skip
    noise = np.random.default_rng(0).normal(0, 0.1, (2, 30))

    def engine(side, level):
        return Fake(logprobs=lambda request: -(level + noise[side][int(request.item_id)]) * 10)

    evaluate(store, "base", engine(0, 2.0), texts)
    evaluate(store, "tuned", engine(1, 1.9), texts)
    row = compare("base", "tuned", store=url).differences[0]
    reports = [side_of(store, run).of("text").report.estimate("perplexity") for run in ("tuned", "base")]
    assert row.value == pytest.approx(reports[0].value - reports[1].value)
    assert (row.finding, row.method) == ("better", "paired, t")
    assert row.higher_is_better is False


def test_flips_and_their_curve(store, url):
    for step, solved in ((0, range(10)), (100, range(5, 25)), (200, range(3, 25))):
        evaluate(store, "run", solves(*solved), task(), step=step)
    base, last = named_sides(["run@first", "run@last"], url)
    found = flips(last.of("sums"), base.of("sums"), "exact_match")
    assert {flip.item for flip in found if not flip.learned} == {"i0", "i1", "i2"}
    assert {flip.item for flip in found if flip.learned} == {f"i{a}" for a in range(10, 25)}
    reports = store.reports(side_of(store, "run").of("sums").report and 1)
    points = flip_curve(reports, store, "exact_match")
    assert [(p.step, p.solved, p.learned, p.forgotten, p.ever, p.n) for p in points] == [
        (0, 10, 0, 0, 10, 40), (100, 20, 15, 5, 25, 40), (200, 22, 2, 0, 25, 40),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="has no range"):
        flip_curve(reports, store, "response_length")


def test_real_results_of_the_harness_are_paired(data):
    base, tuned = data / "lm_eval" / "walar_mgsm_base", data / "lm_eval" / "walar_mgsm_en-ru"
    metric = "exact_match,flexible-extract"
    row = compare(base, tuned, tasks=["mgsm_direct_zh"], metrics=[metric]).differences[0]
    sides = []
    for folder in (tuned, base):
        lines = next(folder.glob("samples_mgsm_direct_zh_*")).read_text().split("\n")
        rows = [json.loads(line) for line in lines if line]
        sides.append({r["doc_id"]: r["exact_match"] for r in rows if r["filter"] == "flexible-extract"})
    ours, theirs = sides
    better = sum(ours[id] > theirs[id] for id in ours)
    worse = sum(ours[id] < theirs[id] for id in ours)
    assert (row.n, row.num_better, row.num_worse) == (250, better, worse)
    assert row.p_value == pytest.approx(mcnemar([[0, better], [worse, 0]], exact=True).pvalue)
    unpaired = compare(base, tuned, tasks=["mgsm_direct_bn"], metrics=[metric]).differences[0]
    assert unpaired.stderr == pytest.approx(math.hypot(0.024760377727750495, stats.sem([1] * 42 + [0] * 208)), rel=1e-3)


@pytest.mark.parametrize(
    ("file", "task", "metric", "value", "n"),
    [
        ("bloom1b1_v03/bloom-1b1_common_sense_reasoning_0-shot.json", "boolq", "acc", 0.5908256880733945, 3270),
        ("bloom1b1_v03/bloom-1b1_gsm8k_8-shot.json", "gsm8k", "acc", 0.008339651250947688, 1319),
        ("llama3_gsm8k_cot", "gsm8k_cot_llama", "exact_match,strict-match", 0.7725549658832449, 1319),
        ("areal_gsm8k/results_hf_100_2025-11-19T02-16-58.416765.json", "gsm8k", "exact_match,strict-match", 0.02, 100),
    ],
)
def test_result_files_of_each_version_are_read(data, file, task, metric, value, n):
    estimate = side_of(None, str(data / "lm_eval" / file)).of(task).report.estimate(metric)
    assert (estimate.value, estimate.n) == (value, n)


def test_harness_files_that_are_odd(tmp_path):
    results = {
        "results": {
            "group": {"acc,none": 0.5}, "part": {"alias": " - part", "acc,none": 0.5, "acc_stderr,none": "N/A",
            "ppl,none": math.inf, "bleu,none": 12.0, "bleu_stderr,none": math.nan},
        },
        "versions": {"part": 1}, "group_subtasks": {"group": ["part"], "part": []}, "date": "2025-01-01T00-00-00.5",
    }  # fmt: skip
    (tmp_path / "results_x.json").write_text(json.dumps(results))
    samples = [{"doc_id": i, "doc": {"q": i}, "resps": [["a"]], "acc": i % 2, "bleu": 1.0} for i in range(10)]
    (tmp_path / "samples_part_x.jsonl").write_text("\n".join(map(json.dumps, samples)))
    side = side_of(None, str(tmp_path))
    assert list(side.evidence) == ["part"]  # a group counts its subtasks twice
    part = side.of("part")
    assert len(part.scores("acc").items) == 10
    assert not part.scores("bleu").items  # a corpus metric: not the mean of its documents
    estimates = {estimate.metric: estimate for estimate in part.report.estimates}
    assert (estimates["bleu"].stderr, estimates["ppl"].value, estimates["ppl"].higher_is_better) == (
        None,
        math.inf,
        False,
    )
    (tmp_path / "samples_part_x.jsonl").write_text('{"doc_id": 0}\n{broken')
    with pytest.raises(ConfigError, match="line 2, is no sample"):
        side_of(None, str(tmp_path))
    (tmp_path / "results_y.json").write_text(json.dumps(results))
    with pytest.raises(ConfigError, match="got 2; allowed: one"):
        side_of(None, str(tmp_path))
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ConfigError, match="holds no report"):
        side_of(None, str(tmp_path / "other.json"))


def test_pairs_that_are_infinite_are_no_pairs(store, url):
    found = side_of(store, evaluate(store, "a", solves(1), task()) and "a").of("sums")
    columns = found.scores("exact_match")

    class Broken(type(found)):
        def scores(self, metric):
            return dataclasses.replace(columns, values=(math.inf, *columns.values[1:]))

    pairing = pair(Broken(found.report, store), found, "exact_match")
    assert (pairing.difference, pairing.note) == (None, "infinite scores have no difference")


def test_it_is_a_public_name(store, url):
    evaluate(store, "a", solves(1), task())
    assert mf.compare("a", "a", store=url).differences[0].value == 0
