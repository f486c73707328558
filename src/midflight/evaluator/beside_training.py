"""Evaluates beside training: weights and tasks go to a dispatcher; results come back in any order."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midflight.dispatch import Job, Outcome, Process
from midflight.dispatch.process import check_job
from midflight.dispatch.queue import Weights
from midflight.distributed.sharded_model import put_in_shards, put_together
from midflight.engines.base import BaseEngine
from midflight.errors import MidflightError
from midflight.evaluator.setting import Setting
from midflight.metrics import BaseMetric
from midflight.pipeline import evaluate_checkpoint
from midflight.records import EvalReport, Progress
from midflight.run import Run
from midflight.schema import report_from_json, report_to_json
from midflight.sequential import SequentialRule
from midflight.show.progress import waiting
from midflight.snapshot import wholes
from midflight.store import RunInfo
from midflight.tasks import Task
from midflight.triggers.frequency import Agree

logger = logging.getLogger("midflight")

GRACE_S = 60.0
"""Seconds beyond a limit after which an engine that has not come back is taken to hang."""
WORD_S = 5.0
"""Seconds after which rank 0 tells ranks that wait for it to wait on: a process group has a time limit."""

NOTHING, COPY, WAIT = 0.0, 1.0, 2.0
"""What rank 0 tells the others of a model in shards: whether weights are copied now, which all have to join."""


@dataclass(frozen=True)
class Evaluation:
    """What another process does: one task on one set of weights, kept in the store from there.

    Attributes:
        task: The task.
        progress: Where training stood when the weights were made.
        seed: Seed of sampling and bootstrap.
        level: Confidence level.
        registered: Metrics of the user's.
        limit_s: Seconds that it may take.
        stalled_s: Seconds that training has stood still for evaluations.
        run: Store, run, attempt, and when it began; None = nothing is stored.
        stop: A rule that may end it early.
    """

    task: Task
    progress: Progress
    seed: int
    level: float
    registered: Mapping[str, type[BaseMetric]]
    limit_s: float | None
    stalled_s: float
    run: tuple[str, RunInfo, int, float] | None
    stop: SequentialRule | None

    def __call__(self, engine: BaseEngine, runs: bool) -> str:
        """Evaluates; with `runs` False the engine is not asked, and what was answered before is scored."""
        report = evaluate_checkpoint(
            self.task,
            engine,
            run=None if self.run is None else Run.elsewhere(*self.run),
            progress=self.progress,
            seed=self.seed,
            level=self.level,
            registered=self.registered,
            limit_s=self.limit_s if runs else 0.0,
            stalled_s=self.stalled_s,
            stop=self.stop,
        )
        return report_to_json(report)


class BesideTraining:
    """The evaluations of a training that run beside it; on ranks other than 0, nothing.

    Args:
        setting: The training; it has an engine.
        dispatcher: Where they run; None = processes on this machine, as the config says.
        is_main: Whether this rank hands over.
        agree: Gives every rank what rank 0 says; None = the others have no part in it.
    """

    def __init__(self, setting: Setting, dispatcher: Process | None, is_main: bool, agree: Agree | None = None) -> None:
        self.setting, self.is_main, self._agree = setting, is_main, agree
        config = setting.config
        self.dispatcher = dispatcher or Process(
            workers=config.workers,
            max_waiting=config.max_waiting,
            when_busy=config.when_busy,
            limits=config.limits,
            snapshot_dir=config.snapshot_dir,
            device=config.device,
        )
        run = setting.run
        self.run = run if run is not None and run.enabled else None
        self.stalled_s = 0.0
        """Seconds that training has stood still in here."""
        self._open: dict[tuple[str, int], Progress] = {}  # task and step of evaluations that have not ended
        self._handed: dict[str, int] = {}  # task: step of the weights that were last handed over
        self._measured: dict[str, int] = {}  # task: step of the newest weights that were measured
        self._lost: list[tuple[str, int]] = []  # task and step of those that were open when a state was taken
        self._refused: list[Outcome] = []

    def start(self, tasks: Sequence[Task], progress: Progress, measure: bool) -> list[EvalReport]:
        """Hands over the first weights, or the tasks that a crash had cost these ones.

        Raises:
            CapabilityError: If the engine, a task or a metric cannot be handed to another process.
        """
        if not self.is_main:
            return self._follow()
        try:
            self._prepare(tasks, progress)
        except MidflightError:
            self._tell(NOTHING)
            raise
        lost, self._lost = self._lost, []
        self._adopt({task.name: task for task in tasks}, progress)
        for name, step in lost:
            if step != progress.step and (name, step) not in self._open:
                self._tell_lost(name, step)
        here = {name for name, step in lost if step == progress.step}
        left = tasks if measure else [task for task in tasks if task.name in here]
        return self.measure(left, progress)

    def _prepare(self, tasks: Sequence[Task], progress: Progress) -> None:
        for task in tasks:
            check_job(self._job(task, progress).call, f"task {task.name!r}")
        engine = self.setting.engine
        assert engine is not None
        put_in_shards(engine.modules())
        self.dispatcher.prepare(engine, engine.modules())

    def _adopt(self, tasks: Mapping[str, Task], progress: Progress) -> None:
        """Takes over what a killed process of this run has copied and not evaluated, of weights before these."""
        run = self.run
        if run is None or run.attempt == 1:
            return
        done = {(report.task, report.progress.step) for report in run.store.reports(run.id)}

        def still_open(note: Mapping[str, Any]) -> list[Task]:
            step = note["progress"]["step"]
            names = [name for name in note["tasks"] if name in tasks and (name, step) not in done]
            return [tasks[name] for name in names if step < progress.step]

        for weights in self.dispatcher.adopt(_key(run), lambda note: bool(still_open(note))):
            assert weights.seal is not None
            note = weights.seal.note
            then = Progress(**note["progress"])
            # they belong to the attempt that made them: one of this attempt would supersede what came after it
            jobs = [self._job(task, then, note["attempt"]) for task in still_open(note)]
            self._open |= {(job.name, job.step): then for job in jobs}
            self.dispatcher.enqueue(weights, jobs)
            logger.info("midflight: the weights of step %d were left by a killed process, and are evaluated", then.step)

    def _tell_lost(self, name: str, step: int) -> None:
        """The weights of an evaluation went with the process that held them; it may have ended all the same."""
        if self.run is None:
            logger.warning("midflight: the evaluation of %s at step %d was lost with the process", name, step)
            return
        self.run.store.note_missing(
            self.run.id, self.run.attempt, name, Progress(step), "lost with the process of training"
        )
        if any((task, at) == (name, step) for task, at, _ in self.run.store.missing(self.run.id)):
            logger.warning("midflight: the evaluation of %s at step %d was lost with the process", name, step)

    def measure(self, tasks: Sequence[Task], progress: Progress, wait: bool = False) -> list[EvalReport]:
        """Copies the weights, and has them evaluated; returns as soon as they are copied.

        Args:
            tasks: What is measured.
            progress: Where training stands.
            wait: Whether to wait for room, where there is none; else this evaluation is left out, which is recorded.
        """
        if not self.is_main:
            return self._follow()
        began = time.monotonic()
        jobs = [self._job(task, progress) for task in tasks]
        for job in jobs:
            self._open[job.name, job.step] = progress
            self._handed[job.name] = progress.step
        try:
            self._hand_over(jobs, wait)
        except Exception as error:  # e.g. a full disk; whatever went wrong in an evaluation, training has not
            self._refused += [Outcome(job, "failed", reason=f"{type(error).__name__}: {error}") for job in jobs]
        finally:
            self.stalled_s += time.monotonic() - began
        return self.poll()

    def _hand_over(self, jobs: Sequence[Job], wait: bool) -> None:
        engine = self.setting.engine
        assert engine is not None
        modules = engine.modules()
        put_in_shards(modules)
        room: Weights | list[Outcome] = []
        try:
            if jobs:
                room = self.dispatcher.reserve(engine, modules, jobs, must=wait)
                while wait and isinstance(room, list):
                    self.dispatcher.wait_for_room(WORD_S)
                    self._tell(WAIT)
                    room = self.dispatcher.reserve(engine, modules, jobs, must=wait)
        finally:
            self._tell(NOTHING if isinstance(room, list) else COPY)
        if isinstance(room, list):
            self._refused += room
            return
        parts = wholes(modules)
        with put_together(modules):
            try:
                self.dispatcher.submit(room, jobs, parts, self._note(jobs))
            finally:
                deque(parts, maxlen=0)  # the others join in for all of them, whatever went wrong here

    def _follow(self) -> list[EvalReport]:
        """On the other ranks: joins rank 0 if it copies weights that lie in shards."""
        while (told := self._tell(NOTHING)) == WAIT:
            continue
        if told == COPY and self.setting.engine is not None:
            with put_together(self.setting.engine.modules()):
                deque(wholes(self.setting.engine.modules()), maxlen=0)
        return []

    def _tell(self, what: float) -> float:
        """What rank 0 says, on all ranks."""
        return what if self._agree is None else self._agree([what])[0]

    def _note(self, jobs: Sequence[Job]) -> dict[str, Any] | None:
        """What a copy is, for the process that goes on with this run if this one is killed."""
        run = self.run
        if run is None:
            return None
        progress = dataclasses.asdict(self._open[jobs[0].name, jobs[0].step])
        return {"run": _key(run), "attempt": run.attempt, "progress": progress, "tasks": [job.name for job in jobs]}

    def _job(self, task: Task, progress: Progress, attempt: int | None = None) -> Job:
        config, run = self.setting.config, self.run
        call = Evaluation(
            task=task,
            progress=progress,
            seed=config.seed,
            level=config.level,
            registered=dict(self.setting.registered),
            limit_s=config.limit_s,
            stalled_s=self.stalled_s,
            run=None if run is None else (run.store.location, run.info, attempt or run.attempt, run.started),
            stop=config.rule_of(task.name),
        )
        limit = None if config.limit_s is None else config.limit_s + GRACE_S
        return Job(task.name, progress.step, call, config.priorities.get(task.name, 0), limit)

    def go_on(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """Takes in what has come back."""
        return self.poll()

    def poll(self) -> list[EvalReport]:
        """Reports that have come in since the last call.

        Raises:
            EvaluationError: If an evaluation failed, and `on_error` is ``raise``.
        """
        outcomes = self.dispatcher.poll()
        if self._refused:
            outcomes, self._refused = [*self._refused, *outcomes], []
        found = []
        for outcome in outcomes:
            progress = self._open.pop((outcome.job.name, outcome.job.step))
            if outcome.ending == "done":
                report = report_from_json(outcome.result)
                self.setting.take(report, outcome.seconds)
                found.append(report)
                reason = ", ".join(report.errors) if report.status == "failed" else ""
            else:
                reason = f"{outcome.ending}: {outcome.reason}"
            if reason:
                self._missing(outcome, progress, reason)
            else:
                self._measured[outcome.job.name] = max(progress.step, self._measured.get(outcome.job.name, -1))
        return found

    def _missing(self, outcome: Outcome, progress: Progress, reason: str) -> None:
        """An evaluation that did not take place is recorded, and stays due if its weights are the last ones."""
        name = outcome.job.name
        if self._handed.get(name) == progress.step:
            del self._handed[name]
        if self.run is not None:
            self.run.store.note_missing(self.run.id, self.run.attempt, name, progress, reason)
        if outcome.ending in ("done", "failed"):
            self.setting.failed(progress.step, {name: reason}, "it is measured when it is next due")
        else:
            logger.info("midflight: %s at step %d: %s", name, progress.step, reason)

    def finish(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """Hands over the last weights if need be, and waits for all that runs, no longer than `finish_s`."""
        if not self.is_main:
            return self._follow()
        found = self.poll()
        known = {**self._measured, **self._handed}
        left = [task for task in tasks if known.get(task.name) != progress.step]
        found += self.measure(left, progress, wait=True)
        limit = self.setting.config.finish_s
        ends = None if limit is None else time.monotonic() + limit
        with waiting(self.dispatcher.unfinished, self.setting.quiet) as tell:
            while self.dispatcher.unfinished:
                if not self.dispatcher.wait(None if ends is None else ends - time.monotonic()):
                    logger.warning("midflight: finish_s = %g s are over; what still runs is given up", limit)
                    break
                found += self.poll()
                tell(self.dispatcher.unfinished)
        self.close()
        return found + self.poll()

    def close(self) -> None:
        """Gives up what still runs; what was answered is in the store."""
        self.dispatcher.close()

    # -- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs, as plain JSON."""
        return {"measured": dict(self._measured), "open": sorted(map(list, self._open))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self._measured = {str(name): int(step) for name, step in state["measured"].items()}
        self._lost = [(str(name), int(step)) for name, step in state.get("open", [])]


def _key(run: Run) -> str:
    """What tells a run from all others on this machine."""
    return f"{run.store.location} {run.id}"
