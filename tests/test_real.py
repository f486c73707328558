"""The real SmolLM2-135M-Instruct: equal to lm-evaluation-harness, and the two jobs of the README."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from midflight.engines import HF
from midflight.pipeline import evaluate_checkpoint
from midflight.tasks import Task, load_task

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def smollm(smollm_folder) -> HF:
    return HF.load(smollm_folder, dtype="float32", tokens_per_batch=2048)


@pytest.mark.data
def test_arc_equals_lm_evaluation_harness_item_by_item(smollm, data, tmp_path):
    """The same file, prompts and model through both: log-likelihoods, choices, accuracies and their errors."""
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    file = tmp_path / "arc.jsonl"
    with (data / "benchmarks" / "arc_challenge.jsonl").open(encoding="utf-8") as rows:
        file.write_text("".join(itertools.islice(rows, 12)), encoding="utf-8")
    config = {
        "task": "arc_local",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(file)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{query}}\nAnswer:",
        "doc_to_target": "{{gold}}",
        "doc_to_choice": "{{choices}}",
        "metric_list": [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in ("acc", "acc_norm")],
    }
    (tmp_path / "arc_local.yaml").write_text(json.dumps(config))
    theirs = simple_evaluate(
        HFLM(pretrained=smollm.model, tokenizer=smollm.tokenizer, backend="causal", batch_size=4),
        tasks=["arc_local"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        log_samples=True,
        bootstrap_iters=10,
    )
    task = Task(
        "arc",
        file,
        kind="multiple_choice",
        prompt="{{ query }}\nAnswer:",
        choices="choices",
        target="gold",
        metrics=["choice_accuracy", "choice_accuracy_norm"],
    )
    outputs = {o.request_id: o for o in smollm.run([r for item in task.items for r in task.requests(item, False)])}
    for sample in theirs["samples"]["arc_local"]:
        ours = [outputs[f"{sample['doc_id']:06d}/0/{i}"].logprob for i in range(len(sample["resps"]))]
        assert ours == pytest.approx([float(r[0][0]) for r in sample["resps"]], abs=2e-3)
    report, results = evaluate_checkpoint(task, smollm), theirs["results"]["arc_local"]
    for metric, name in (("choice_accuracy", "acc"), ("choice_accuracy_norm", "acc_norm")):
        found = report.estimate(metric)
        assert found.value == pytest.approx(results[f"{name},none"])
        assert found.stderr == pytest.approx(results[f"{name}_stderr,none"], rel=1e-6)


def test_perplexity_equals_lm_evaluation_harness(smollm, tmp_path):
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    page = " = Robert Boulter = \n \n Robert Boulter is an English film , television and theatre actor . He had a guest @-@ starring role \n"
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps({"page": page * times}) + "\n" for times in (1, 2, 3)))
    config = {
        "task": "pages",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "pages.jsonl")}},
        "test_split": "test",
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "!function pages.detokenize",
        "process_results": "!function pages.process_results",
        "metric_list": [
            {"metric": "word_perplexity", "aggregation": "weighted_perplexity"},
            {"metric": "byte_perplexity", "aggregation": "weighted_perplexity"},
            {"metric": "bits_per_byte", "aggregation": "bits_per_byte"},
        ],
    }
    text = "\n".join(
        f"{key}: {value if str(value).startswith('!') else json.dumps(value)}" for key, value in config.items()
    )
    (tmp_path / "pages.yaml").write_text(text)
    (tmp_path / "pages.py").write_text(
        "from lm_eval.tasks.wikitext.preprocess_wikitext import wikitext_detokenizer as detokenize, process_results\n"
    )
    theirs = simple_evaluate(
        HFLM(pretrained=smollm.model, tokenizer=smollm.tokenizer, backend="causal", batch_size=1),
        tasks=["pages"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        bootstrap_iters=0,
    )["results"]["pages"]
    report = evaluate_checkpoint(load_task(f"wikitext@{tmp_path}/pages.jsonl"), smollm)
    for metric in ("word_perplexity", "bits_per_byte"):
        assert report.estimate(metric).value == pytest.approx(theirs[f"{metric},none"], rel=1e-4)


def midflight(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midflight", *map(str, arguments)], capture_output=True, text=True, timeout=600
    )


@pytest.mark.data
@pytest.mark.data
def test_two_prompts_of_a_real_model_are_compared_pair_by_pair(smollm, data, store):
    """Whether "Answer:" stands behind the question: refused as the same task, measured as a difference of prompts."""
    from scipy import stats
    from statsmodels.stats.contingency_tables import mcnemar

    from midflight.analyse.compare import compare
    from midflight.errors import ConfigError
    from midflight.run import Run

    scores = []
    for name, prompt in (("bare", "{{ query }}"), ("asked", "{{ query }}\nAnswer:")):
        task = Task(
            "copa", data / "benchmarks" / "copa.jsonl", kind="multiple_choice", prompt=prompt, choices="choices",
            target="gold", metrics=["choice_accuracy"], limit=40,
        )  # fmt: skip
        with Run("p", name, store=store) as run:
            report = evaluate_checkpoint(task, smollm, run=run)
        scores.append([score.value for score in store.scores(report.id, "choice_accuracy")])
    with pytest.raises(ConfigError, match="prompt differ"):
        compare("bare", "asked", store=store.location)
    (row,) = compare("bare", "asked", store=store.location, across=["prompt"]).differences
    bare, asked = scores
    better, worse = (sum(a > b for a, b in zip(*pair, strict=True)) for pair in ((asked, bare), (bare, asked)))
    assert (row.n, row.num_better, row.num_worse) == (40, better, worse)
    assert row.p_value == pytest.approx(mcnemar([[0, better], [worse, 0]], exact=True).pvalue)
    assert row.stderr == pytest.approx(stats.sem([a - b for a, b in zip(asked, bare, strict=True)]))
    assert row.note == "the same weights on both sides; other prompt"


def test_the_second_job_of_the_readme(smollm_gguf, data):
    """SmolLM2 from its GGUF file, on a reasoning-gym task and on GSM8K."""
    for task in ("reasoning_gym:chain_sum", "gsm8k"):  # as in the README, with shorter answers
        Path(f"{task.split(':')[0]}.toml").write_text(f'extends = "{task}"\nsampling = {{ max_tokens = 48 }}\n')
    gsm8k = data / "benchmarks" / "gsm8k_test.jsonl"
    done = midflight(
        "eval",
        smollm_gguf,
        "--task",
        "reasoning_gym.toml",
        "--task",
        f"gsm8k.toml@{gsm8k}",
        "--limit",
        4,
        "--dtype",
        "bfloat16",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    assert [r["task"] for r in reports] == ["reasoning_gym", "gsm8k"]
    for report in reports:
        assert report["status"] == "done"
        first = report["estimates"][0]
        assert (first["n"], sum(first["counts"].values())) == (4, 4)
        assert report["cost"]["output_tokens"] > 40
        assert report["engine"]["chat"]
