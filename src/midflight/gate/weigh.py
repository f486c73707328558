"""One rule held against the evidence: what is judged, its interval, and how surely it meets the rule or breaks it.

`weigh` is the one place where evidence becomes a pair of p-values. What brings p-values of its own, such as an
evaluation that was stopped early, enters there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from midflight.analyse.evidence import Evidence
from midflight.analyse.pairing import Pairing, differing_parts, pair
from midflight.errors import ConfigError
from midflight.estimate.relative import PairedRatio, UnpairedRatio
from midflight.estimate.single import Single, Unpaired, single_of
from midflight.gate.policy import Rule
from midflight.records import Estimate

SECONDS = "seconds"
"""Name under which a rule speaks of the time that an evaluation took."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a rule cannot be decided.

    Attributes:
        what: One word for it; see docs/gates.md.
        reason: In words.
    """

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Weighed:
    """What the evidence says.

    Attributes:
        value: The candidate's value.
        meets: Whether the estimate alone meets the rule.
        judged: What is held against the bound, in words.
        bound: That bound.
        above: Whether it should be above the bound, or else below.
        p_pass: p-value against "it breaks the rule"; None = nothing is tested, or nothing can be told.
        p_fail: p-value against "it meets the rule".
        tested: Whether the value has an error at all; costs have none.
        ci_low: Lower end of the interval of what is judged.
        ci_high: Upper end.
        baseline: The baseline's value.
        difference: Candidate − baseline.
        n: Items, or pairs of items.
        coverage: Share of the items that are among them.
        method: How interval and p-values were computed.
    """

    value: float
    meets: bool
    judged: str
    bound: float
    above: bool
    p_pass: float | None
    p_fail: float | None
    tested: bool
    ci_low: float | None = None
    ci_high: float | None = None
    baseline: float | None = None
    difference: float | None = None
    n: int = 0
    coverage: float | None = None
    method: str = ""


class _Judged(Protocol):
    """A quantity with an error: a value, a difference or a ratio."""

    @property
    def method(self) -> str: ...

    def p_above(self, bound: float) -> float | None: ...

    def p_below(self, bound: float) -> float | None: ...


def weigh(
    rule: Rule, slice: str, candidate: Evidence | None, baseline: Evidence | None, level: float
) -> Weighed | Missing:
    """What the evidence says of a rule on one slice.

    Args:
        rule: The rule.
        slice: The slice, its value written out; empty = all items.
        candidate: The rule's task on the candidate; None = it was not evaluated.
        baseline: The same on the baseline; left aside by a rule that compares nothing.
        level: Level of the interval.

    Raises:
        ConfigError: If the rule contradicts the metric's direction, or cannot be asked of it.
    """
    if not rule.compares:
        found = _estimate(rule, slice, candidate, "candidate")
        if isinstance(found, Missing):
            return found
        _check_direction(rule, found)
        return _weigh_value(rule, found, level)
    own, other = _estimate(rule, slice, candidate, "candidate"), _estimate(rule, slice, baseline, "baseline")
    if isinstance(own, Missing):
        return own
    if isinstance(other, Missing):
        return other
    assert candidate is not None
    assert baseline is not None
    higher = _check_direction(rule, own)
    if candidate.report.id == baseline.report.id:
        raise ConfigError(f"{rule.task}: candidate and baseline are one and the same evaluation, {candidate.report.id}")
    if _is_cost(own):
        return _weigh_costs(rule, own, other, higher)
    differing = differing_parts(candidate, baseline)
    if differing:
        text = f"not the same task for both sides: {', '.join(differing)} differ"
        return Missing("comparable", text)
    return _weigh_difference(rule, pair(candidate, baseline, rule.metric, slice), higher, level)


def _estimate(rule: Rule, slice: str, evidence: Evidence | None, side: str) -> Estimate | Missing:
    """The estimate that a rule speaks of, if it is whole."""
    what = "baseline" if side == "baseline" else ""
    if evidence is None:
        return Missing(what or "task", f"{rule.task} was not evaluated on the {side}")
    report = evidence.report
    if report.status == "failed":
        return Missing(what or "evaluation", f"the {side}'s evaluation failed: {next(iter(report.errors), '')}")
    refused = _other_version(rule, evidence)
    if refused:
        return Missing("fingerprint", f"the {side}'s {refused}")
    found = next((e for e in _estimates(evidence) if (e.metric, e.slice) == (rule.metric, slice)), None)
    if found is None:
        have = sorted({e.metric for e in _estimates(evidence)})
        if rule.metric not in have:
            return Missing(what or "metric", f"the {side} has no {rule.metric}; it has {', '.join(have)}")
        return Missing(what or "slice", f"the {side} has no slice {slice}")
    if found.n == 0:
        return Missing(what or "items", f"the {side}'s set is empty")
    if found.value is None or not math.isfinite(found.value):
        told = f": {found.note}" if found.note else f" but {found.value}" if found.value is not None else ""
        return Missing(what or "value", f"the {side}'s {rule.metric} has no value{told}")
    if found.coverage < rule.min_coverage and not _is_cost(found):
        text = f"{found.num_scored} of the {side}'s {found.n} items have a score, less than {rule.min_coverage:.6g}"
        return Missing(what or "coverage", text)
    return found


def _estimates(evidence: Evidence) -> list[Estimate]:
    """The report's estimates, and the seconds that it took."""
    report = evidence.report
    n = max((e.n for e in report.estimates), default=0)
    seconds = Estimate(
        SECONDS, "", report.cost.seconds, None, None, None, 0.95, n, 1, "measured once", {"ok": n}, "s", False
    )
    return [*report.estimates, *([] if any(e.metric == SECONDS for e in report.estimates) else [seconds])]


def _other_version(rule: Rule, evidence: Evidence) -> str:
    """What about the task is not what the rule names; empty if all is."""
    report = evidence.report
    if isinstance(rule.fingerprint, str):
        known = report.task_fingerprint
        return "" if known.startswith(rule.fingerprint) else f"task has the fingerprint {known[:12]}"
    parts = report.fingerprint_parts
    other = [part for part, digest in rule.fingerprint.items() if not parts.get(part, "").startswith(digest)]
    return f"task has other {', '.join(other)}" if other else ""


def _is_cost(estimate: Estimate) -> bool:
    return estimate.method == "measured once"


def _check_bound(rule: Rule, estimate: Estimate) -> None:
    """Refuses a number that the metric cannot have: 5 where 0.05 is meant would let everything pass.

    Raises:
        ConfigError: Says the metric's range.
    """
    low, high = estimate.lowest, estimate.highest
    if low is None or high is None:
        return
    number = getattr(rule, rule.requirement)
    allowed = (low, high) if rule.requirement in ("at_least", "at_most") else (0.0, high - low)
    if rule.requirement != "max_relative_drop" and not allowed[0] <= number <= allowed[1]:
        raise ConfigError(
            f"rule {rule.title(rule.slice)!r}: {rule.requirement}",
            got=number,
            allowed=f"from {allowed[0]:zg} to {allowed[1]:zg}: {rule.metric} lies between {low:zg} and {high:zg}",
        )


def _check_direction(rule: Rule, estimate: Estimate) -> bool:
    """Whether higher is better: of the metric's own, or as the rule says.

    Raises:
        ConfigError: If they contradict each other, or nobody says it and it has to be known.
    """
    _check_bound(rule, estimate)
    own, said = estimate.higher_is_better, rule.higher_is_better
    implied = {"at_least": True, "at_most": False}.get(rule.requirement)
    for told in (said, implied):
        if own is not None and told is not None and told != own:
            raise ConfigError(
                f"rule {rule.title(rule.slice)!r}: of {rule.metric}, {'higher' if own else 'lower'} is better",
                got="higher_is_better" if told is said else rule.requirement,
                hint="the rule would refuse the better model",
            )
    found = next((told for told in (own, said, implied) if told is not None), None)
    if found is None:
        raise ConfigError(
            f"rule {rule.title(rule.slice)!r}: {rule.metric} has no better direction of its own",
            hint="say higher_is_better = true or false in the rule",
        )
    return found


def _weigh_value(rule: Rule, estimate: Estimate, level: float) -> Weighed:
    """An absolute bound."""
    single = single_of(estimate)
    assert single is not None
    at_least = rule.requirement == "at_least"
    meets = single.value >= rule.bound if at_least else single.value <= rule.bound
    if _is_cost(estimate):
        return Weighed(
            single.value, meets, "value", rule.bound, at_least, None, None, False, n=estimate.n, method=estimate.method
        )
    low, high = single.interval(level)
    return Weighed(
        single.value, meets, "value", rule.bound, at_least, *_p_values(single, rule.bound, at_least), True,
        low, high, n=estimate.num_scored, coverage=estimate.coverage, method=single.method,
    )  # fmt: skip


def _weigh_costs(rule: Rule, own: Estimate, other: Estimate, higher: bool) -> Weighed:
    """A change of what was measured once on each side: values without an error."""
    assert own.value is not None
    assert other.value is not None
    gain = (own.value - other.value) * (1 if higher else -1)
    allowed = -rule.bound * abs(other.value) if rule.requirement == "max_relative_drop" else -rule.bound
    meets = gain > rule.bound if rule.requirement == "must_improve" else gain >= allowed
    bound = rule.bound if rule.requirement == "must_improve" else allowed
    return Weighed(
        own.value, meets, "difference", bound * (1 if higher else -1), higher, None, None, False,
        baseline=other.value, difference=own.value - other.value, n=own.n, method=own.method,
    )  # fmt: skip


def _weigh_difference(rule: Rule, pairing: Pairing, higher: bool, level: float) -> Weighed | Missing:
    """A change against the baseline, paired where item scores are kept."""
    whole = max(estimate.n for estimate in pairing.estimates)
    scored = min(estimate.num_scored for estimate in pairing.estimates)
    n = pairing.difference.n if pairing.difference is not None else scored
    if n < rule.min_coverage * whole:
        text = f"{n} of {whole} items have a score on both sides, less than {rule.min_coverage:.6g}"
        return Missing("coverage", text)
    candidate, baseline = pairing.candidate, pairing.baseline
    assert candidate is not None
    assert baseline is not None
    sign = 1 if higher else -1
    if rule.requirement == "max_relative_drop":
        judged, (low, high), bound = _ratio(rule, pairing, higher, level)
        met = (candidate - bound * baseline) * sign >= 0
        named = "ratio"
    else:
        bound = sign * (rule.bound if rule.requirement == "must_improve" else -rule.bound)
        judged, (low, high) = _difference(pairing, level)
        gain = (candidate - baseline - bound) * sign
        met, named = gain > 0 or (gain == 0 and rule.requirement != "must_improve"), "difference"
    return Weighed(
        candidate, met, named, bound, higher, *_p_values(judged, bound, higher), True, low, high,
        baseline, candidate - baseline, n, n / whole, judged.method,
    )  # fmt: skip


Ends: TypeAlias = tuple[float | None, float | None]


def _p_values(judged: _Judged, bound: float, above: bool) -> tuple[float | None, float | None]:
    """p-values against breaking a bound, and against meeting it."""
    tests = (judged.p_above, judged.p_below)
    return (tests[0](bound), tests[1](bound)) if above else (tests[1](bound), tests[0](bound))


def _difference(pairing: Pairing, level: float) -> tuple[_Judged, Ends]:
    if pairing.difference is not None:
        interval = pairing.difference.interval(level)
        return pairing.difference, (interval.low, interval.high)
    unpaired = Unpaired(*_singles(pairing))
    return unpaired, unpaired.interval(level)


def _ratio(rule: Rule, pairing: Pairing, higher: bool, level: float) -> tuple[_Judged, Ends, float]:
    """The ratio to the baseline, its interval, and the ratio that the rule asks for.

    Raises:
        ConfigError: If a share of the baseline's value means nothing, because that may be negative.
    """
    bound = 1 - rule.bound if higher else 1 + rule.bound
    if pairing.baseline is None or pairing.baseline < 0 or bound <= 0:
        raise ConfigError(
            f"rule {rule.title(rule.slice)!r}: max_relative_drop",
            got=f"{rule.bound:zg} of a baseline of {pairing.baseline}",
            allowed="less than 1, of a metric that is not negative",
            hint="max_drop takes a difference",
        )
    if pairing.difference is None:
        unpaired = UnpairedRatio(*_singles(pairing))
        return unpaired, unpaired.interval(level), bound
    estimate = pairing.estimates[0]
    ratio = PairedRatio(*pairing.scores, pairing.difference.clusters, estimate.lowest, estimate.highest)
    return ratio, ratio.interval(level), bound


def _singles(pairing: Pairing) -> tuple[Single, Single]:
    own, other = map(single_of, pairing.estimates)
    assert own is not None
    assert other is not None
    return own, other
