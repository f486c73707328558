"""Results of lm-evaluation-harness, v0.3 to v0.4, and the samples beside them; a metric under a filter is a metric.

Groups are left out: their subtasks are there. Scores of documents count only if their mean is the result; a metric that
is no mean over documents is compared without pairs.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from midflight.analyse.evidence import NO_SCORES, Evidence, Side
from midflight.errors import ConfigError, shorten
from midflight.estimate import Interval, mean_interval
from midflight.estimate.quantiles import normal_quantile
from midflight.records import Cost, Estimate, EvalReport, Item, Output, Progress
from midflight.store import ScoreColumns

SHARES = frozenset({"acc", "acc_norm", "acc_bytes", "exact_match", "em", "f1", "mc1", "mc2", "pass_at_1"})
"""Metrics of the harness whose scores lie between 0 and 1."""
LOWER_IS_BETTER = frozenset({"perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "ppl", "brier_score"})


@dataclass(frozen=True)
class HarnessEvidence(Evidence):
    """One task of a result file.

    Attributes:
        columns: Score of each document, by metric.
        documents: Documents by id, from the samples.
        answers: What the model said, by request id.
    """

    columns: Mapping[str, ScoreColumns] = field(default_factory=dict)
    documents: Mapping[str, Item] = field(default_factory=dict)
    answers: Mapping[str, Output] = field(default_factory=dict)

    def scores(self, metric: str) -> ScoreColumns:
        """Score of each document."""
        return self.columns.get(metric, NO_SCORES)

    @property
    def items(self) -> Mapping[str, Item]:
        """Documents by id."""
        return self.documents

    def outputs(self) -> Mapping[str, Output]:
        """Outputs by request id."""
        return self.answers


def is_lm_eval(text: str) -> bool:
    """Whether a text is a result file of the harness."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("results"), dict) and "versions" in found


def read_lm_eval(path: Path) -> Side:
    """A result file, or a folder that holds one, with the samples beside it.

    Raises:
        ConfigError: If it cannot be read, or a folder holds none or several.
    """
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.json") if file.is_file() and _is_result(file))
        if len(found) != 1:
            names = ", ".join(file.name for file in found[:10])
            raise ConfigError(
                f"result files in {path}", got=len(found), allowed="one", hint=names and f"name it: {names}"
            )
        return replace(read_lm_eval(found[0]), label=str(path))
    content = json.loads(_read(path))
    groups = {name for name, parts in (content.get("group_subtasks") or {}).items() if parts}
    stamp = path.stem.partition("_")[2]
    evidence = {
        task: _evidence(content, task, values, list(_samples(path.with_name(f"samples_{task}_{stamp}.jsonl"))), path)
        for task, values in content["results"].items()
        if task not in groups and isinstance(values, dict)
    }
    if not evidence:
        raise ConfigError(f"{path} holds no result of a task")
    return Side(str(path), dict(sorted(evidence.items())))


def _is_result(path: Path) -> bool:
    """Whether a file of a folder is one of results; what cannot be read is none."""
    try:
        return is_lm_eval(_read(path))
    except ConfigError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for number, line in enumerate(_read(path).split("\n"), start=1):  # not splitlines: texts hold other line ends
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            yield {**row, "doc_id": str(row["doc_id"])}
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(f"{path}, line {number}, is no sample: {shorten(str(error))}") from None


def _evidence(
    content: Mapping[str, Any], task: str, values: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], path: Path
) -> HarnessEvidence:
    config = (content.get("configs") or {}).get(task) or {}
    num_documents = ((content.get("n-samples") or {}).get(task) or {}).get("effective")
    better = (content.get("higher_is_better") or {}).get(task) or {}
    columns, estimates = {}, []
    for metric, value, stderr in _metrics(values):
        name = metric.split(",")[0]
        scores = _columns(samples, *metric.split(",", 1)) if "," in metric else _columns(samples, metric, "none")
        if scores.items and _is_mean(scores, value):
            columns[metric] = scores
        direction = better.get(name, name not in LOWER_IS_BETTER)
        estimates.append(_estimate(metric, value, stderr, columns.get(metric), num_documents, direction))
    parts = _parts(content, task, config, samples)
    report = EvalReport(
        id=_digest([path.name, task, values]),
        task=task,
        task_fingerprint=_digest(parts),
        fingerprint_parts=parts,
        engine={"name": "lm-evaluation-harness", **_plain(content.get("config"))},
        weights=str((content.get("config") or {}).get("model_sha") or content.get("model_name") or ""),
        status="done",
        progress=Progress(),
        estimates=estimates,
        cost=Cost(),
        seed=int((content.get("config") or {}).get("random_seed") or 0),
        started_at=_when(content.get("date")),
        software={"lm_eval": str(content.get("lm_eval_version") or content.get("git_hash") or "")},
    )
    documents = {row["doc_id"]: Item(row["doc_id"], row.get("doc") or {}, row.get("target")) for row in samples}
    return HarnessEvidence(report, columns, documents, _answers(samples))


def _metrics(values: Mapping[str, Any]) -> Iterator[tuple[str, float, float | None]]:
    """Metric (with its filter, if it has one), value and standard error; what is no number is left out."""
    for key, value in values.items():
        name, _, filter = key.partition(",")
        if name.endswith("_stderr") or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        stderr = values.get(f"{name}_stderr,{filter}" if filter else f"{name}_stderr")
        known = isinstance(stderr, int | float) and math.isfinite(stderr) and stderr > 0  # 0 proves nothing
        yield name if filter in ("", "none") else key, float(value), float(stderr) if known else None  # type: ignore[arg-type]


def _columns(samples: Sequence[Mapping[str, Any]], metric: str, filter: str) -> ScoreColumns:
    rows = {}
    for row in samples:
        score = row.get(metric)
        if row.get("filter", "none") == filter and isinstance(score, int | float):
            rows[row["doc_id"]] = float(score)
    ids = sorted(rows)
    return ScoreColumns(tuple(ids), tuple(rows[id] for id in ids), (1.0,) * len(ids))


def _is_mean(scores: ScoreColumns, value: float) -> bool:
    known = [score for score in scores.values if score is not None]
    return math.isclose(math.fsum(known) / len(known), value, rel_tol=1e-6, abs_tol=1e-9)


def _estimate(
    metric: str, value: float, stderr: float | None, scores: ScoreColumns | None, count: int | None, better: bool
) -> Estimate:
    share = metric.split(",")[0] in SHARES
    low, high = (0.0, 1.0) if share else (None, None)
    if scores is not None:
        interval = mean_interval([score for score in scores.values if score is not None], low=low, high=high)
        n = len(scores.items)
    else:
        n = count or (round(value * (1 - value) / stderr**2) + 1 if share and stderr and 0 < value < 1 else 0)
        if stderr is None:
            interval = Interval(value, None, None, None, n, "of the harness")
        else:
            half = normal_quantile(0.975) * stderr
            interval = Interval(value, stderr, value - half, value + half, n, "of the harness, normal")
    return Estimate(
        metric, "", interval.value, interval.stderr, interval.low, interval.high, 0.95, n, interval.clusters,
        interval.method, {"ok": n}, higher_is_better=better, lowest=low, highest=high,
    )  # fmt: skip


def _parts(
    content: Mapping[str, Any], task: str, config: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """What has to be equal: from the samples' hashes, and from the task's configuration where there are none."""
    hashes = [(row["doc_id"], row.get("doc_hash"), row.get("target_hash"), row.get("prompt_hash")) for row in samples]
    asked = [config.get(key) for key in ("doc_to_text", "doc_to_choice", "description", "num_fewshot")]
    template = [content.get("chat_template_sha"), content.get("system_instruction_sha")]
    own = [task, (content.get("n-samples") or {}).get(task), config.get("dataset_path"), config.get("dataset_name")]
    return {
        "items": _digest(sorted({row[:3] for row in hashes}, key=str) or own),
        "prompt": _digest(sorted({(row[0], row[3]) for row in hashes}, key=str) or [asked, template]),
        "grader": _digest([config.get("metric_list"), config.get("filter_list"), content["versions"].get(task)]),
        "sampling": _digest([config.get("generation_kwargs"), config.get("repeats")]),
    }


def _answers(samples: Sequence[Mapping[str, Any]]) -> dict[str, Output]:
    found = {}
    for row in samples:
        answers = row.get("resps") or []
        texts = answers[0] if answers and isinstance(answers[0], list) else answers
        for index, text in enumerate(texts):
            id = f"{row['doc_id']}/{index}/0"
            found[id] = Output(id, text=text if isinstance(text, str) else json.dumps(text))
    return found


def _plain(config: Any) -> dict[str, Any]:
    keys = ("model", "model_args", "gen_kwargs")
    return {key: config[key] for key in keys if config.get(key)} if isinstance(config, dict) else {}


def _when(date: Any) -> float:
    """Seconds since the epoch: a number, or 0 where the file does not tell."""
    if isinstance(date, int | float):
        return float(date)
    matched = re.match(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}", str(date))
    return datetime.strptime(f"{matched[0]} +0000", "%Y-%m-%dT%H-%M-%S %z").timestamp() if matched else 0.0


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
