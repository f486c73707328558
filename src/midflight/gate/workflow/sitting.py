"""One process at an execution: carries steps out, tries again, undoes; each change is in the store before the next."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from midflight.credentials import Scrubber
from midflight.errors import MidflightError, StepError, StoreError, WorkflowError
from midflight.gate.workflow.evidence import check_evidence
from midflight.gate.workflow.plan import Workflow
from midflight.gate.workflow.steps.base import Step, StepContext
from midflight.records import Actor, Execution, Verdict, WorkflowStep
from midflight.schema import to_json, verdict_from_json
from midflight.store import Store
from midflight.store.leases import Lease

LONGEST_WAIT_S = 300.0
"""Seconds between two tries at most, also where a server asks for more."""

OUTPUT_CHARACTERS = 4_000
"""Characters of a step's output that are kept: its end."""


class Sitting:
    """Carries out an execution from where it stands.

    Args:
        workflow: What is to be done.
        execution: How far it is.
        store: Where that is written down.
        lease: This process's lease on the execution.
        by: Who does it.
        context: What is the same for all steps.
        tell: Told what happens, a line each.
        sleep: Waits for seconds.
    """

    def __init__(
        self,
        workflow: Workflow,
        execution: Execution,
        store: Store,
        lease: Lease,
        by: Actor,
        context: StepContext,
        tell: Callable[[str], None],
        sleep: Callable[[float], None],
    ) -> None:
        self.id, self.store, self.lease, self.by, self.context = execution.id, store, lease, by, context
        self.plan, self.steps = workflow.steps, list(execution.steps)
        self.status, self.reason = execution.status, execution.reason
        self.scrub = Scrubber(workflow.variables)
        self._tell, self._sleep = tell, sleep

    def carry_out(self, assume_done: Sequence[str], run_again: Sequence[str]) -> None:
        """Does what is left to do.

        Raises:
            WorkflowError: If a step was cut off and nobody can know whether it took effect.
            LeaseLostError: If another process took over.
            StoreError: If the store cannot be written to.
        """
        if self.status == "rolling_back":
            self._roll_back()
            return
        if self.status == "failed":  # the same command again: what did not succeed is tried anew
            for step in [step for step in self.steps if step.status != "done"]:
                self._record(dataclasses.replace(step, status="pending", reason="", state={}, result={}), "reset")
            self._end("running", "retried", "")
        for number, plan in enumerate(self.plan):
            step = self.steps[number]
            if step.status == "running" and step.name in assume_done:
                self._record(dataclasses.replace(step, status="done"), "assumed_done")
            elif step.status == "running" and not plan.idempotent and step.name not in run_again:
                raise _unknown(step)
            if not self._step(number, plan):
                self._roll_back()
                return
        self._end("done", "done", "")

    def _step(self, number: int, plan: Step) -> bool:
        """Carries out a step that is left to do; False if the workflow has to stop."""
        step, verdict = self.steps[number], self.context.verdict
        if step.status in ("done", "skipped") or (step.status == "failed" and plan.on_failure == "continue"):
            self._take_verdict(number, plan)
            return True
        if not plan.applies(verdict.outcome if verdict else None):
            reason = f"the verdict is {verdict.outcome}" if verdict else "there is no verdict"
            self._record(dataclasses.replace(step, status="skipped", reason=reason), "skipped", {"reason": reason})
            self._say(f"{plan.name}: skipped: {reason}")
            return True
        self._say(f"{plan.name}…" if plan.name == plan.kind else f"{plan.name}: {plan.kind}…")
        failure = self._try(number, plan, undo=False)
        if failure is None:
            self._take_verdict(number, plan)
            return True
        if plan.on_failure == "continue":
            self._say(f"{plan.name}: failed, and the workflow goes on: {failure}")
            return True
        self._end("rolling_back", "stopped", f"step {plan.name!r} failed: {failure}")
        return False

    def _roll_back(self) -> None:
        """Undoes what was done, the last step first; a step that cannot be undone is said loudly, the others go on."""
        for number, step in reversed(list(enumerate(self.steps))):
            plan = self.plan[number]
            if step.status == "pending":
                self._record(dataclasses.replace(step, status="skipped", reason=self.reason), "skipped")
            elif step.status == "done" and plan.can_undo:
                failure = self._try(number, plan, undo=True)
                if failure is not None:
                    self._say(f"{plan.name}: ROLLBACK FAILED: {failure}")
                    self.reason += f"; ROLLBACK of step {plan.name!r} FAILED: {failure}"
        self._end("failed", "ended", self.reason)

    def _try(self, number: int, plan: Step, undo: bool) -> str | None:
        """Does or undoes a step, as often as it may be tried; why that failed, or None."""
        for tried in range(plan.retries + 1):
            self.lease.check()
            began = self.steps[number]
            if undo:
                self._record(began, "rolling_back")
            else:
                began = dataclasses.replace(began, status="running", attempts=began.attempts + 1, reason="", result={})
                self._record(began, "started", {"attempt": began.attempts})
            try:
                result = self._take_effect(number, plan, undo)
            except StepError as error:
                failure = str(self.scrub(str(error)))
                self._failed(number, failure, error, undo)
                if error.permanent or tried == plan.retries:
                    return failure
                wait_s = plan.backoff_s * 2.0 ** min(tried, 32) if error.wait_s is None else error.wait_s
                wait_s = min(wait_s, LONGEST_WAIT_S)
                self._say(f"{plan.name}: {failure}; another try in {wait_s:g} s")
                self._sleep(wait_s)
                continue
            self._done(number, plan, result, undo)
            return None
        raise AssertionError("unreachable")

    def _take_effect(self, number: int, plan: Step, undo: bool) -> Mapping[str, Any]:
        step = self.steps[number]
        context = dataclasses.replace(self.context, step=step.name, attempt=step.attempts, state=step.state)
        try:
            if undo:
                return plan.undo(context, step.result)
            result = plan.carry_out(context, lambda state: self._note(number, state))
            if plan.makes_verdict and context.checkpoint is not None:
                check_evidence(self.store, verdict_from_json(result["verdict"]), context.checkpoint)
            return result
        except (StepError, StoreError):
            raise
        except MidflightError as error:
            raise StepError(error.message) from error
        except Exception as error:  # steps may be another package's
            raise StepError(f"{type(error).__name__}: {error}") from error

    # -- what is written down ----------------------------------------------------------------------------------------

    def _note(self, number: int, state: Mapping[str, Any]) -> None:
        self.lease.check()
        step = self.steps[number]
        noted = self.scrub({**step.state, **state})
        if noted != step.state:
            self._record(dataclasses.replace(step, state=noted), "noted", noted)

    def _done(self, number: int, plan: Step, result: Mapping[str, Any], undo: bool) -> None:
        kept = self._kept(result)
        step = self.steps[number]
        shown = {key: value for key, value in kept.items() if key not in ("verdict", "output")}
        if undo:
            self._record(dataclasses.replace(step, status="rolled_back"), "rolled_back", kept)
            self._say(f"{plan.name}: rolled back {_brief(shown)}")
            return
        detail = {**shown, "output": kept.get("output", "")}
        if plan.makes_verdict:
            detail |= evidence_of(verdict_from_json(kept["verdict"]))
        self._record(dataclasses.replace(step, status="done", result=kept), "done", detail)
        self._say(f"{plan.name}: done {_brief(shown)}")

    def _failed(self, number: int, failure: str, error: StepError, undo: bool) -> None:
        detail = {"reason": failure, **self._kept({"output": error.output})}
        step = self.steps[number]
        if undo:
            self._record(dataclasses.replace(step, reason=f"rollback failed: {failure}"), "rollback_failed", detail)
        else:
            self._record(dataclasses.replace(step, status="failed", reason=failure), "failed", detail)

    def _kept(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """A result without secrets, its output cut: in this order, so that no half of a secret stays."""
        kept: dict[str, Any] = self.scrub(json.loads(to_json(dict(result))))
        return {key: value[-OUTPUT_CHARACTERS:] if key == "output" else value for key, value in kept.items()}

    def _record(self, step: WorkflowStep, event: str, detail: Mapping[str, Any] = {}) -> None:
        self.store.record_step(self.id, self.lease.number, step, event, self.by, detail)
        self.steps[step.position] = step

    def _end(self, status: Literal["running", "rolling_back", "done", "failed"], event: str, reason: str) -> None:
        self.store.record_execution(self.id, self.lease.number, status, event, self.by, reason)
        self.status, self.reason = status, reason

    def _take_verdict(self, number: int, plan: Step) -> None:
        """From here on the steps go by the verdict that a step has made."""
        step = self.steps[number]
        if not plan.makes_verdict or step.status != "done" or self.context.verdict is not None:
            return
        self.context = dataclasses.replace(self.context, verdict=verdict_from_json(step.result["verdict"]))

    def _say(self, text: str) -> None:
        self._tell(self.scrub(text).rstrip())


def evidence_of(verdict: Verdict) -> dict[str, Any]:
    """What the trail tells of a verdict: which rules judged which evaluations."""
    return {
        "verdict": verdict.id,
        "outcome": verdict.outcome,
        "policy": verdict.policy,
        "policy_digest": verdict.policy_digest,
        "candidate": verdict.candidate.label,
        "candidate_weights": verdict.candidate.weights,
        "evaluations": dict(verdict.candidate.evaluations),
        "reasons": list(verdict.reasons),
    }


def _brief(result: Mapping[str, Any]) -> str:
    told = [f"{key}: {value}" for key, value in result.items() if value not in ("", None)]
    return f"({', '.join(told)})" if told else ""


def _unknown(step: WorkflowStep) -> WorkflowError:
    return WorkflowError(
        f"step {step.name!r} was begun and its process died: whether it took effect cannot be known from here",
        hint=f"look, then say --assume-done {step.name} or --run-again {step.name}; a step that may be done twice says"
        " `idempotent = true`",
    )
