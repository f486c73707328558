"""Carries out a workflow for a checkpoint: exactly once, by one process at a time, also after crashes."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from midflight import environ
from midflight.credentials import resolve
from midflight.errors import ConfigError, WorkflowError
from midflight.gate.workflow.artifact import weights_hash
from midflight.gate.workflow.evidence import check_evidence
from midflight.gate.workflow.plan import Workflow, load_workflow
from midflight.gate.workflow.sitting import Sitting, evidence_of
from midflight.gate.workflow.steps.base import StepContext
from midflight.records import Actor, Execution, Verdict, WorkflowStep
from midflight.store import Store, open_store
from midflight.store.leases import Lease, Leases

LOOK_S = 0.5
"""Seconds between two looks at an execution that another process is at."""


class WorkflowExecutor:
    """What runs after a gate's verdict.

        executor = mf.WorkflowExecutor("workflow.toml")
        execution = executor.run("runs/mt4/checkpoint-500", verdict)

    An execution is known by what the workflow's file says, the verdict and the checkpoint's hash. Where it stands is in
    the store, so that a process that dies is followed by one that goes on, and nothing is done twice.

    Args:
        workflow: The workflow, or its TOML file.
        store: The store, or its URL; None = the default one.
        tell: Told what happens, a line each.
        dead_s: Seconds after which a process of another machine that gives no sign of life is dead.
        clock: Monotonic clock, in seconds.
        sleep: Waits for seconds.

    Raises:
        ConfigError: If the file is wrong.
        StoreError: If the store cannot be opened.
    """

    def __init__(
        self,
        workflow: str | Path | Workflow,
        store: Store | str | None = None,
        *,
        tell: Callable[[str], None] = lambda _: None,
        dead_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.workflow = workflow if isinstance(workflow, Workflow) else load_workflow(workflow)
        self.store: Store = open_store(store) if store is None or isinstance(store, str) else store
        self._leases = Leases(self.store, environ.owner(), dead_s, clock)
        self._tell, self._clock, self._sleep = tell, clock, sleep

    def run(
        self,
        checkpoint: str | Path | None = None,
        verdict: Verdict | None = None,
        *,
        project: str = "",
        run: str = "",
        wait_s: float = 600.0,
        retry: bool = True,
        assume_done: Sequence[str] = (),
        run_again: Sequence[str] = (),
    ) -> Execution:
        """Carries out the workflow, goes on with it, or finds it done.

        Args:
            checkpoint: The checkpoint; None if no step needs one.
            verdict: What the gate said; None if a step of the workflow asks it, or every step is for `always`.
            project: The project. Default: the verdict's, else ``default``.
            run: The run that the checkpoint is of. Default: the verdict's.
            wait_s: Seconds to wait for another process that is at it.
            retry: Whether one that failed is tried again.
            assume_done: Steps that were cut off and did take effect.
            run_again: Steps that were cut off and are to be carried out again.

        Returns:
            How it ended: `done`, or `failed` with a reason and, as far as that goes, rolled back.

        Raises:
            ConfigError: If verdict, checkpoint or a variable is missing, or does not fit; nothing has run then.
            WorkflowError: If another process is at it for longer, or a step was cut off and nobody can know whether
                it took effect.
            LeaseLostError: If this process was silent for so long that another one took over.
            StoreError: If the store cannot be written to.
        """
        path = None if checkpoint is None else Path(checkpoint).expanduser().absolute()
        self._check(path, verdict, (*assume_done, *run_again))
        subject = verdict.candidate if verdict else None
        new = self._new_execution(path, verdict, project or (subject.project if subject else "") or "default")
        context = StepContext(
            workflow=self.workflow.name,
            execution=new.id,
            step="",
            attempt=0,
            folder=self.workflow.path.parent,
            store=self.store.location,
            project=new.project,
            run=run or (subject.run if subject else ""),
            checkpoint=path,
            weights=new.weights,
            verdict=verdict,
        )
        with self._held(f"workflow execution {new.id}", wait_s) as (lease, waited):
            # who has waited takes the end that the other one came to for its own
            return self._carry_out(new, lease, context, retry and not waited, assume_done, run_again)

    @contextmanager
    def _held(self, name: str, wait_s: float) -> Iterator[tuple[Lease, bool]]:
        """The lease on an execution, and whether another process had it before."""
        ends, waited = self._clock() + wait_s, False
        while True:
            with self._leases.held(name) as lease:
                if lease is not None:
                    yield lease, waited
                    return
            at_it = f"{self.workflow.name}: another process is at it: {self.store.lease_owner(name)}"
            if self._clock() >= ends:
                raise WorkflowError(at_it, hint="it goes on by itself; the same command later shows how it ended")
            if not waited:
                self._tell(f"{at_it}; waiting for it")
                waited = True
            self._sleep(LOOK_S)

    def _check(self, checkpoint: Path | None, verdict: Verdict | None, named: Sequence[str]) -> None:
        """What can be known to be wrong before anything runs."""
        where = self.workflow.path
        for step in self.workflow.steps:
            if step.needs_checkpoint and checkpoint is None:
                raise ConfigError(f"{where}: step {step.name!r} needs a checkpoint", hint="name it: --checkpoint DIR")
            if verdict is None and not self.workflow.judges and step.when != "always":
                raise ConfigError(f"{where}: step {step.name!r} needs a verdict", hint="name it: --verdict FILE")
        if verdict is not None and self.workflow.judges:
            raise ConfigError(f"{where}: two verdicts: the one given, and the one that a step of it makes")
        for variable in sorted(self.workflow.variables):
            resolve(f"${{env:{variable}}}")
        for name in named:
            if name not in [step.name for step in self.workflow.steps]:
                raise ConfigError(f"{where}: no step {name!r}", allowed=", ".join(s.name for s in self.workflow.steps))
        if verdict is not None and checkpoint is not None:
            check_evidence(self.store, verdict, checkpoint)

    def _new_execution(self, checkpoint: Path | None, verdict: Verdict | None, project: str) -> Execution:
        weights = weights_hash(checkpoint) if checkpoint is not None else ""
        judged = verdict.id if verdict else ""
        identity = json.dumps([self.workflow.digest, judged, weights])
        return Execution(
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            workflow=self.workflow.name,
            workflow_digest=self.workflow.digest,
            project=project,
            checkpoint=str(checkpoint or ""),
            weights=weights,
            verdict=judged,
            status="running",
            reason="",
            created=time.time(),
            steps=[WorkflowStep(i, step.name, step.kind) for i, step in enumerate(self.workflow.steps)],
        )

    def _carry_out(
        self,
        new: Execution,
        lease: Lease,
        context: StepContext,
        retry: bool,
        assume_done: Sequence[str],
        run_again: Sequence[str],
    ) -> Execution:
        known = self.store.execution(new.id)
        _check_cut_off(known or new, (*assume_done, *run_again))
        if known is not None and (known.status == "done" or (known.status == "failed" and not retry)):
            steps = [f"{s.name} {s.status}" + (f" ({s.reason})" if s.reason else "") for s in known.steps]
            told = f"{self.workflow.name}: {known.status} before (execution {known.id}): {', '.join(steps)}"
            self._tell("; ".join(filter(None, (told, known.reason))))
            return known
        by = Actor(_who(), environ.git_state(self.workflow.path.parent))
        evidence = evidence_of(context.verdict) if context.verdict else {}
        execution = self.store.begin_execution(new, lease.number, by, evidence)
        sitting = Sitting(self.workflow, execution, self.store, lease, by, context, self._tell, self._sleep)
        sitting.carry_out(assume_done, run_again)
        ended = self.store.execution(new.id)
        assert ended is not None
        return ended


def _check_cut_off(execution: Execution, named: Sequence[str]) -> None:
    for name in named:
        status = execution.step(name).status
        if status != "running":
            raise ConfigError(f"step {name!r} was not cut off: it is {status}", hint="leave it out")


def _who() -> str:
    """``user@host:process``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}:{os.getpid()}"
