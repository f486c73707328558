"""From rules and evidence to a verdict: each rule passes, fails or stays open, and together they decide.

A model passes if every blocking rule is proved, each at level α: it passes wrongly with probability α at most, whatever
the number of rules (an intersection–union test; Berger 1982, Technometrics 24:295). It fails if any blocking rule is
proved to be broken, by Holm's adjusted p-values over all of them (Holm 1979): a model that meets all rules fails with
probability α at most. Everything else is inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from midflight.analyse.evidence import Evidence, Side
from midflight.errors import ConfigError, shorten
from midflight.estimate.paired import holm
from midflight.gate.policy import EVERY, Policy, Rule
from midflight.gate.weigh import Missing, Weighed, weigh
from midflight.records import Decision, Outcome, Verdict

ONE_SET = "one set of weights"
"""Name of the rule that no policy has to say."""


def judge(
    policy: Policy,
    candidate: Side,
    baseline: Side | None = None,
    *,
    id: str,
    created_at: float,
    look: int = 0,
    software: Mapping[str, str] = {},
    environment: Mapping[str, Any] = {},
) -> Verdict:
    """The verdict of a policy on a candidate.

    Args:
        policy: What it has to prove.
        candidate: What is judged.
        baseline: What it is judged against.
        id: Of the verdict, unique.
        created_at: Seconds since the epoch (UTC).
        look: The how manieth look at this run it is, from 1; 0 = nobody counts.
        software: Versions of what took part.
        environment: Who runs it and where.

    Raises:
        ConfigError: If the policy asks for a baseline and there is none, for looks and nobody counts, or contradicts a
            metric.
    """
    if policy.compares and baseline is None:
        raise ConfigError(f"policy {policy.name!r} compares with a baseline, and none is given", hint="--baseline RUN")
    if policy.looks == "every-checkpoint" and not look:
        raise ConfigError(
            f"policy {policy.name!r}: looks = 'every-checkpoint' counts looks in a store, and none can be written to"
        )
    alpha = policy.alpha_at(look)
    against = baseline if policy.compares else None
    found = list(_weigh_all(policy, candidate, against, 1 - 2 * alpha))
    adjusted = iter(holm([w.p_fail for rule, _, w in found if _is_tested(rule, w)]))  # type: ignore[misc,union-attr]
    decisions = [
        _decide(policy, rule, slice, weighed, alpha, next(adjusted) if _is_tested(rule, weighed) else None)
        for rule, slice, weighed in found
    ]
    decisions += _one_set_of_weights(policy, candidate)
    return Verdict(
        id=id,
        outcome=_outcome(decisions),
        policy=policy.name,
        policy_digest=policy.digest,
        candidate=candidate.subject,
        baseline=against.subject if against is not None else None,
        decisions=decisions,
        reasons=[f"{decision.rule}: {decision.reason}" for decision in decisions if decision.blocks],
        alpha=alpha,
        look=look,
        created_at=created_at,
        software=software,
        environment=environment,
        warnings=_warnings(policy, decisions, look),
    )


def _weigh_all(
    policy: Policy, candidate: Side, baseline: Side | None, level: float
) -> Iterator[tuple[Rule, str, Weighed | Missing]]:
    """Every rule on every slice that it speaks of."""
    for rule in policy.rules:
        own = candidate.evidence.get(rule.task)
        other = baseline.evidence.get(rule.task) if baseline is not None else None
        for slice in _slices(rule, own, other):
            yield rule, slice, weigh(rule, slice, own, other, level)


def _slices(rule: Rule, *sides: Evidence | None) -> list[str]:
    """The slices that a rule speaks of: ``subject=*`` is each value that a side has, or itself if there is none."""
    name, _, value = rule.slice.partition("=")
    if value != EVERY:
        return [rule.slice]
    found = {
        estimate.slice
        for side in sides
        if side is not None
        for estimate in side.report.estimates
        if estimate.metric == rule.metric and estimate.slice.startswith(f"{name}=")
    }
    return sorted(found) or [rule.slice]


def _is_tested(rule: Rule, weighed: Weighed | Missing) -> bool:
    """Whether it is one of the rules over which the error of failing is kept."""
    return rule.tier == "blocking" and isinstance(weighed, Weighed) and weighed.p_fail is not None


def _decide(
    policy: Policy, rule: Rule, slice: str, weighed: Weighed | Missing, alpha: float, adjusted: float | None
) -> Decision:
    where = f" [{slice}]" if slice else ""
    decision = Decision(
        rule=rule.title(slice),
        tier=rule.tier,
        outcome="inconclusive",
        requirement=f"{rule.task} {rule.metric}{where}: {rule.words}",
        reason="",
        task=rule.task,
        metric=rule.metric,
        slice=slice,
    )
    blocking = rule.tier == "blocking"
    if isinstance(weighed, Missing):
        return replace(decision, reason=shorten(weighed.reason, 500), missing=weighed.what, blocks=blocking)
    p_fail = weighed.p_fail if adjusted is None else adjusted
    by_value = not weighed.tested or rule.evidence == "value"
    outcome = _by_value(weighed) if by_value else _by_proof(weighed.p_pass, p_fail, alpha)
    return replace(
        decision,
        outcome=outcome,
        reason=_reason(weighed, outcome, p_fail, by_value),
        value=weighed.value,
        baseline=weighed.baseline,
        difference=weighed.difference,
        ci_low=weighed.ci_low,
        ci_high=weighed.ci_high,
        level=1 - 2 * alpha if weighed.tested else None,
        bound=weighed.bound,
        n=weighed.n,
        coverage=weighed.coverage,
        p_pass=None if by_value else weighed.p_pass,
        p_fail=None if by_value else p_fail,
        method=weighed.method,
        blocks=blocking and (outcome == "fail" or (outcome == "inconclusive" and policy.inconclusive == "block")),
    )


def _by_value(weighed: Weighed) -> Outcome:
    return "pass" if weighed.meets else "fail"


def _by_proof(p_pass: float | None, p_fail: float | None, alpha: float) -> Outcome:
    if p_pass is not None and p_pass <= alpha:
        return "pass"
    return "fail" if p_fail is not None and p_fail <= alpha else "inconclusive"


def _reason(weighed: Weighed, outcome: Outcome, p_fail: float | None, by_value: bool) -> str:
    """Why it ended so: what was measured, what it was held against, how sure it is."""
    measured, bound = f"{weighed.judged} {_judged_value(weighed)}", _number(weighed.bound)
    if by_value:
        told = "measured once, without error" if not weighed.tested else "the value alone, noise and all"
        met = "meets" if weighed.meets else "misses"
        return f"{measured} {met} the bound {bound} ({told})"
    if weighed.p_pass is None or p_fail is None:
        return f"{measured}: {weighed.n} items are too few, or too much alike, to tell it from {bound}"
    if weighed.ci_low is not None or weighed.ci_high is not None:
        measured += f" [{_number(weighed.ci_low)}, {_number(weighed.ci_high)}]"
    good, bad = ("above", "below") if weighed.above else ("below", "above")
    return {
        "pass": f"{measured} is {good} {bound} (p = {weighed.p_pass:.2g})",
        "fail": f"{measured} is {bad} {bound} (p = {p_fail:.2g})",
        "inconclusive": f"{measured} is not shown to be {good} {bound} (p = {weighed.p_pass:.2g}),"
        f" nor {bad} it (p = {p_fail:.2g})",
    }[outcome]


def _judged_value(weighed: Weighed) -> str:
    if weighed.judged == "value" or weighed.baseline is None:
        return _number(weighed.value)
    if weighed.judged == "ratio":
        return _number(weighed.value / weighed.baseline) if weighed.baseline else "to a baseline of 0"
    return _number(weighed.difference)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:z.4g}"


def _one_set_of_weights(policy: Policy, candidate: Side) -> list[Decision]:
    """Whether all tasks that the policy speaks of were evaluated on the same weights, if there are several."""
    reports = {task: candidate.evidence[task].report for task in _tasks(policy) if task in candidate.evidence}
    if len(reports) < 2:
        return []
    groups: dict[str, list[str]] = {}
    for task, report in reports.items():
        groups.setdefault(report.weights, []).append(f"{task} at step {report.progress.step}")
    one = len(groups) == 1
    reason = "all evaluations are of the same weights" if "" not in groups else "the engine does not tell its weights"
    if not one:
        reason = "other weights: " + " | ".join(", ".join(names) for names in groups.values())
    return [
        Decision(
            rule=ONE_SET,
            tier="blocking",
            outcome="pass" if one else "inconclusive",
            requirement="all tasks were evaluated on the same weights",
            reason=shorten(reason, 500),
            missing="" if one else "weights",
            blocks=not one,
        )
    ]


def _tasks(policy: Policy) -> list[str]:
    return list(dict.fromkeys(rule.task for rule in policy.rules))


def _outcome(decisions: Sequence[Decision]) -> Outcome:
    blocking = [decision for decision in decisions if decision.blocks]
    if any(decision.outcome == "fail" for decision in blocking):
        return "fail"
    return "inconclusive" if blocking else "pass"


def _warnings(policy: Policy, decisions: Sequence[Decision], look: int) -> list[str]:
    """What the policy lets through with a warning, and looks that nobody pays for."""
    found = [
        f"{decision.rule} is let through: {decision.reason}"
        for decision in decisions
        if decision.tier == "blocking" and decision.outcome == "inconclusive" and not decision.blocks
    ]
    found = found if policy.inconclusive == "warn" else []
    if look > 1 and policy.looks == "once":
        found.append(
            f"this is look {look} at this run, and the policy keeps its error rate for one;"
            " looks = 'every-checkpoint' keeps it over all"
        )
    return found
