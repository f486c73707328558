"""A gate as it stands in a pipeline: counts its looks, judges, and keeps the verdict."""

from __future__ import annotations

import json
from dataclasses import replace

from midflight import environ
from midflight.analyse.evidence import Side
from midflight.errors import StoreError
from midflight.gate.judge import judge
from midflight.gate.policy import Policy
from midflight.records import Verdict
from midflight.store import Store


def decide(
    policy: Policy, candidate: Side, baseline: Side | None, store: Store | None, *, id: str, created_at: float
) -> Verdict:
    """The verdict of a policy on a candidate, kept where a store can be written to.

    Args:
        policy: What it has to prove.
        candidate: What is judged.
        baseline: What it is judged against.
        store: Where looks are counted and the verdict is kept; None = nowhere. One that cannot be written to serves
            as well, unless the policy spends its error rate over looks.
        id: Of the verdict, unique.
        created_at: Seconds since the epoch (UTC).

    Raises:
        ConfigError: As `judge`.
        StoreError: If the policy counts looks, and the store cannot be written to.
    """
    look, trouble = _look(policy, candidate, store)
    verdict = judge(
        policy,
        candidate,
        baseline,
        id=id,
        created_at=created_at,
        look=look,
        software=environ.software(),
        environment={**environ.describe(), "git": environ.git_state()},
    )
    if trouble:
        return replace(verdict, warnings=[*verdict.warnings, f"this verdict is kept nowhere: {trouble}"])
    if store is not None:
        store.add_verdict(verdict)
    return verdict


def _look(policy: Policy, candidate: Side, store: Store | None) -> tuple[int, str]:
    """The how manieth look it is, 0 = nobody counts; and why the store cannot be written to, if it cannot."""
    if store is None:
        return 0, ""
    subject = candidate.subject
    try:
        return store.take_look(subject.project, subject.run, policy.digest, _seen(candidate)), ""
    except StoreError as error:
        if policy.looks == "every-checkpoint":
            raise
        return 0, error.message


def _seen(candidate: Side) -> str:
    """What is looked at: weights and seeds, since other samples from the same weights are another chance to pass."""
    reports = [evidence.report for evidence in candidate.evidence.values()]
    weights = sorted({report.weights or report.id for report in reports})
    return json.dumps([weights, sorted({report.seed for report in reports})])
