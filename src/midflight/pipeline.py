"""The table of contents: how one task on one set of weights becomes a report.

task ──► engine ──► metric ──► estimate ──► store
items    outputs    scores     value±se     report
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from midflight import environ
from midflight.engines.base import BaseEngine
from midflight.errors import CapabilityError, ConfigError, EngineDiedError, EngineError, shorten
from midflight.estimate import estimate_all
from midflight.metrics import ALWAYS, BaseMetric, check_class, load_metrics, score_all
from midflight.records import SCORED, Cost, Estimate, EvalReport, Item, Output, Progress, Request, Sample, Score
from midflight.run import Run
from midflight.sequential import Looks, SequentialRule, looks_of
from midflight.sitting import Sitting, resumable
from midflight.tasks import Task, load_task

Watch = Callable[[str, int, int, int], None]
"""Told a task's name, how many requests are answered, how many there are so far, and tokens of this sitting."""


def evaluate_checkpoint(
    task: str | Task,
    engine: BaseEngine,
    *,
    run: Run | None = None,
    progress: Progress = Progress(),  # noqa: B008 - frozen
    seed: int = 0,
    level: float = 0.95,
    registered: Mapping[str, type[BaseMetric]] = {},
    watch: Watch | None = None,
    limit_s: float | None = None,
    stalled_s: float | None = None,
    stop: SequentialRule | None = None,
) -> EvalReport:
    """Evaluates the engine's current weights on a task; what was evaluated before is read from the store.

    Args:
        task: A task, or what `load_task` makes one of.
        engine: What answers.
        run: Where results belong; None = nothing is stored.
        progress: Where training stands.
        seed: Seed of sampling and bootstrap.
        level: Confidence level.
        registered: Metrics of the user's by name; those that the task does not name are added to it.
        watch: Told of progress.
        limit_s: Seconds that the engine may take; items that it has not answered then are `not_run`. 0 = it is not
            asked at all: what was answered before is scored. None = no limit.
        stalled_s: Seconds that training has stood still for evaluations so far; None = for as long as they took.
        stop: A rule that may end the evaluation early; it needs a run.

    Returns:
        The report. Its status is `failed` if the engine died: what it answered before is in it and is kept.

    Raises:
        ConfigError: If task, metrics or rule are not right, or the rule's baseline is not there.
        CapabilityError: If the engine cannot do what the task asks; nothing has run then.
    """
    plan = _plan(load_task(task), engine, progress, seed, registered)
    looks = looks_of(stop, plan.task, plan.metrics, plan.parts, run, progress)
    sitting = Sitting(run, plan.identity, plan.task, plan.fingerprint, plan.weights, progress, looks)
    with resumable(sitting):
        if sitting.done is not None:
            return sitting.done
        outputs, failure = _answers(plan, engine, sitting, watch, limit_s, looks)
        samples = _samples(plan, plan.task.items, outputs, looks)
        scores = score_all(plan.metrics, samples)
        cost = _cost(sitting, outputs, stalled_s, engine.timings())
        estimates = estimate_all(plan.metrics, samples, scores, cost, level=level, seed=seed, skip=plan.skip)
        lost = list(_unscored(samples, scores, estimates, looks))
        report = _report(plan, sitting, estimates, cost, failure, lost, looks)
        sitting.finish(report, scores)
    return report


def evaluate_lm(engine: BaseEngine, task: str | Task, **options: object) -> EvalReport:
    """Evaluates a language model: generation, multiple choice or likelihood.

    Args:
        engine: A language model.
        task: A task that asks for text or likelihoods.
        options: For `evaluate_checkpoint`.

    Raises:
        ConfigError: If the task is for reward models.
    """
    loaded = load_task(task)
    if loaded.capability == "reward":
        raise ConfigError(f"task {loaded.name!r} ranks answers by reward", hint="use evaluate_rw")
    return evaluate_checkpoint(loaded, engine, **options)  # type: ignore[arg-type]


def evaluate_rw(engine: BaseEngine, task: str | Task, **options: object) -> EvalReport:
    """Evaluates a reward model on preference pairs.

    Args:
        engine: A reward model.
        task: A task of preference pairs.
        options: For `evaluate_checkpoint`.

    Raises:
        ConfigError: If the task is not for reward models.
    """
    loaded = load_task(task)
    if loaded.capability != "reward":
        raise ConfigError(f"task {loaded.name!r} is for language models", hint="use evaluate_lm")
    return evaluate_checkpoint(loaded, engine, **options)  # type: ignore[arg-type]


# -- before anything runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """All that is known before the engine is asked."""

    task: Task
    metrics: list[BaseMetric]
    skip: dict[str, str]
    chat: bool
    parts: dict[str, str]
    fingerprint: str
    engine: dict[str, object]
    weights: str
    progress: Progress
    seed: int
    asked: dict[str, dict[int, list[Request]]] = field(default_factory=dict)  # item, sample: its requests, in order

    @property
    def identity(self) -> str:
        """What makes this evaluation the same as another: computed once, it need not be computed again."""
        return _digest([self.task.name, self.fingerprint, self.engine, self.weights, self.progress.step, self.seed])


def _plan(
    task: Task, engine: BaseEngine, progress: Progress, seed: int, registered: Mapping[str, type[BaseMetric]]
) -> _Plan:
    engine.require(task.capability, task.name)
    metrics = metrics_of(task, registered)
    chat = task.uses_chat(engine.chat)
    if chat and not engine.chat:
        raise CapabilityError(f"task {task.name!r} needs a model with a chat template", got=engine.name)
    lacking = {m.key: m.needs - engine.provides for m in metrics if m.needs - engine.provides}
    parts, fingerprint = task_fingerprint(task, metrics)
    return _Plan(
        task=task,
        metrics=metrics,
        chat=chat,
        parts=parts,
        fingerprint=fingerprint,
        skip={key: f"the {engine.name} engine gives no {', '.join(sorted(fields))}" for key, fields in lacking.items()},
        engine=engine.fingerprint(),
        weights=engine.weights(),
        progress=progress,
        seed=seed,
    )


def metrics_of(task: Task, registered: Mapping[str, type[BaseMetric]] = {}) -> list[BaseMetric]:
    """The metrics that an evaluation of a task computes: its own, the user's, and those of the cost.

    Raises:
        UnknownKeyError: If there is no such metric.
        MetricError: If a metric needs more samples, or a grader beside it.
    """
    known = {**{key: check_class(key, kind) for key, kind in task.metric_classes.items()}, **registered}
    keys = dict.fromkeys([*task.spec.metrics, *registered, *ALWAYS])
    return load_metrics(list(keys), task.spec.samples, known)


def task_fingerprint(task: Task, metrics: Sequence[BaseMetric]) -> tuple[dict[str, str], str]:
    """What has to be equal for two results to be comparable, part by part and as one digest."""
    parts = {**task.fingerprint_parts(), "grader": _digest(sorted([m.key, m.version] for m in metrics))}
    return parts, _digest(parts)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


# -- from the first request, or where the last sitting ended, to the last output ---------------------------------------


def _answers(
    plan: _Plan, engine: BaseEngine, sitting: Sitting, watch: Watch | None, limit_s: float | None, looks: Looks | None
) -> tuple[dict[str, Output], str]:
    """Outputs by request, and why the engine gave up: empty if it did not. All items at once, or look by look."""
    ends = math.inf if limit_s is None else time.monotonic() + limit_s
    task = plan.task
    left = {item.id: task.requests(item, plan.chat, plan.seed) for item in task.items}
    sitting.total = sum(map(len, left.values()))
    for items in [task.items] if looks is None else looks.chunks:
        try:
            _ask(plan, engine, sitting, [request for item in items for request in left.pop(item.id)], watch, ends)
        except EngineDiedError as error:
            sitting.commit()
            return sitting.known, error.message
        if looks is not None:
            looks.look(score_all([looks.metric], _samples(plan, items, sitting.known, looks))[looks.metric.key])
            if looks.over and any(request.id not in sitting.known for its in left.values() for request in its):
                looks.skip(left)
                break
    return sitting.known, ""


def _ask(
    plan: _Plan, engine: BaseEngine, sitting: Sitting, pending: list[Request], watch: Watch | None, ends: float
) -> None:
    """Has requests answered, and those that follow from the answers: one round a turn."""
    items = {item.id: item for item in plan.task.items}
    while pending:
        for request in pending:
            sample = int(request.id.rsplit("/", 2)[1])
            plan.asked.setdefault(request.item_id, {}).setdefault(sample, []).append(request)
        asked = [request for request in pending if request.id not in sitting.known]
        expected = {request.id for request in asked}
        for output in engine.run(asked) if asked and time.monotonic() < ends else ():
            if output.request_id not in expected:
                raise EngineError("the engine answered a request that it was not given", got=output.request_id)
            sitting.add(output)
            if watch is not None:
                watch(plan.task.name, len(sitting.known), sitting.total, sitting.num_tokens)
            if time.monotonic() >= ends:
                break
        sitting.commit()
        pending = [
            after for request in pending if (after := _next(plan, items[request.item_id], request, sitting.known))
        ]
        sitting.total += len(pending)


def _next(plan: _Plan, item: Item, request: Request, known: Mapping[str, Output]) -> Request | None:
    """The next turn of the conversation that a request belongs to."""
    if request.kind != "generate" or request.id not in known:
        return None
    asked = plan.asked[item.id][int(request.id.rsplit("/", 2)[1])]
    return plan.task.next_request(item, request, [known[r.id] for r in asked], plan.seed)


# -- after the last output -------------------------------------------------------------------------------------------


def _samples(
    plan: _Plan, items: Sequence[Item], outputs: Mapping[str, Output], looks: Looks | None
) -> list[list[Sample]]:
    """The samples of each item, in the order of the items; what was not answered is `not_run`."""
    return [
        [
            plan.task.sample(item, index, [outputs.get(request.id) for request in asked])
            for index, asked in sorted(plan.asked[item.id].items())
        ]
        if item.id in plan.asked
        else [Sample(item, 0, (), None, "not_run", looks.note if looks and looks.skipped else "not answered")]
        for item in items
    ]


def _report(
    plan: _Plan,
    sitting: Sitting,
    estimates: Sequence[Estimate],
    cost: Cost,
    failure: str,
    lost: Sequence[str],
    looks: Looks | None,
) -> EvalReport:
    run = sitting.run
    return EvalReport(
        id=sitting.id,
        task=plan.task.name,
        task_fingerprint=plan.fingerprint,
        fingerprint_parts=plan.parts,
        engine=plan.engine,
        weights=plan.weights,
        status="failed" if failure else "partial" if lost else "done",
        progress=plan.progress,
        estimates=looks.with_interval(estimates) if looks else estimates,
        cost=cost,
        seed=plan.seed,
        started_at=sitting.started_at,
        run=run.name if run else "",
        project=run.project if run else "",
        errors=_errors(lost, failure),
        software=environ.software(),
        settings=plan.task.settings,
        decided=looks.decided() if looks else None,
    )


def _cost(
    sitting: Sitting, outputs: Mapping[str, Output], stalled_s: float | None, rank_seconds: Mapping[str, float]
) -> Cost:
    share = None
    if sitting.run is not None and sitting.run.trains:
        if stalled_s is None:
            before = sitting.run.store.evaluation_seconds(sitting.run.id, without=sitting.id)
            stalled_s = before + sitting.seconds
        share = min(1.0, stalled_s / max(1e-9, sitting.run.seconds))
    return Cost(
        seconds=sitting.seconds,
        num_requests=len(outputs),
        prompt_tokens=sum(output.num_prompt_tokens for output in outputs.values()),
        output_tokens=sum(output.num_tokens for output in outputs.values()),
        peak_memory_bytes=environ.peak_memory_bytes(),
        train_share=share,
        rank_seconds=rank_seconds,
    )


def _unscored(
    samples: Sequence[Sequence[Sample]],
    scores: Mapping[str, Sequence[Score]],
    estimates: Sequence[Estimate],
    looks: Looks | None,
) -> Iterator[str]:
    """Why items have no score, each reason once an item, and why metrics have no value; not what a rule skipped."""
    skipped = looks.skipped if looks else frozenset()
    samples = [group for group in samples if group[0].item.id not in skipped]
    for group in samples:
        lost = next((sample for sample in group if sample.state not in SCORED), None)
        if lost is not None:
            yield f"{lost.state}: {lost.note}"
    lost_items = {group[0].item.id for group in samples if any(sample.state not in SCORED for sample in group)}
    for found in scores.values():
        for score in found:
            if score.state not in SCORED and score.item_id not in lost_items | skipped:
                yield f"{score.state}: {score.metric}: {score.note}"
    for estimate in estimates:
        if estimate.method == "failed":
            yield f"error: {estimate.metric}: {estimate.note}"


def _errors(lost: Sequence[str], failure: str) -> dict[str, int]:
    counted = Counter(map(shorten, lost))
    return {**({shorten(failure): 1} if failure else {}), **dict(counted.most_common(10))}
