"""Which hyper-parameters explain an outcome: a linear model over runs, and what the runs cannot tell.

Seeds are noise: runs that differ in nothing else are replicates. What is confounded is named instead of guessed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from midflight.analyse.parameters import Column, Parameter, Scale, flat, parameters_of
from midflight.estimate.least_squares import Coefficient, LeastSquares, least_squares
from midflight.estimate.paired import holm
from midflight.records import Conclusion
from midflight.store.base import Floats

MIN_DF = 4
"""Residual degrees of freedom that an interaction must leave: fewer make intervals that tell nothing."""
REPLICATES = 2
"""Runs that each cell of an interaction needs."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a parameter does to the outcome, the others held still.

    Attributes:
        parameter: Its dotted key; two, joined by ``×``, for an interaction.
        scale: How it enters the model: by its logarithm to the base 10, as it is, or by level.
        start: The setting at which the effect begins: the smallest, or the commonest level.
        end: The setting at which it ends.
        value: Change of the outcome from `start` to `end`; None if it cannot be told. For an interaction: by how much
            the effect of one changes from `start` to `end` of the other.
        stderr: Its standard error; None where there is none.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        level: Level of the interval.
        p_value: Two-sided, of no effect, for this row alone.
        p_adjusted: The same over all rows (Holm 1979).
        coefficient: Change by one unit of the column: a factor of 10, one unit, or the level.
        inflation: Its variance ÷ what it would be if nothing else varied; None where there is no value.
        nearest: The parameter that goes along with it most; empty if no other varies.
        confounded_with: Parameters whose effect cannot be told from this one's, as they change together.
        finding: What it comes to at 1 − level, p-values adjusted, by the outcome's direction.
    """

    parameter: str
    scale: Scale
    start: str
    end: str
    value: float | None
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    level: float
    p_value: float | None
    p_adjusted: float | None
    coefficient: float | None
    inflation: float | None = None
    nearest: str = ""
    confounded_with: Sequence[str] = ()
    finding: Conclusion = "undecided"


@dataclass(frozen=True, slots=True)
class Effects:
    """What hyper-parameters explain.

    Attributes:
        effects: One a parameter, or one a level beside the commonest.
        interactions: The same for pairs of parameters of which the runs can tell.
        not_estimable: Pairs of which they cannot, and why; a parameter that cannot be told itself is in no pair.
        left_out: Parameters that vary and are not in the model, and why.
        bends: Numeric parameters whose effect is no straight line (a squared term, p-values by Holm): the best setting
            may lie between the smallest and the largest.
        n: Runs.
        df: Residual degrees of freedom.
        residual_sd: Standard deviation of what is not explained, seeds included; None without degrees of freedom.
        explained: Share of the variance that is explained (R²); None if there is none.
    """

    effects: Sequence[Effect]
    interactions: Sequence[Effect]
    not_estimable: Mapping[str, str]
    left_out: Mapping[str, str]
    bends: Sequence[str]
    n: int
    df: int
    residual_sd: float | None
    explained: float | None


def effects_of(
    configs: Sequence[Mapping[str, Any]], outcomes: Sequence[float], higher_is_better: bool, level: float = 0.95
) -> Effects:
    """The effect of each parameter that varies, by ordinary least squares.

    Args:
        configs: The configuration of each run, nested or flat.
        outcomes: Its outcome, finite.
        higher_is_better: Direction of the outcome.
        level: Confidence level.
    """
    flats = [flat(config) for config in configs]
    keys = [json.dumps(one, sort_keys=True, default=str) for one in flats]
    order = sorted(range(len(flats)), key=lambda index: (keys[index], outcomes[index]))  # to the bit, in any order
    parameters, left_out = parameters_of([flats[index] for index in order])
    y = np.array([outcomes[index] for index in order], np.float64)
    columns = [(one, column) for one in parameters for column in one.columns]
    fit = _fit([column for _, column in columns], y, level)
    names = [one.name for one, _ in columns]
    nearest = _nearest(columns)
    rows = [
        replace(
            _effect(one.name, one.scale, column, found, level),
            confounded_with=sorted({names[index] for index in found.confounded_with}),
            nearest=nearest[index],
        )
        for index, ((one, column), found) in enumerate(zip(columns, fit.coefficients, strict=True))
    ]
    confounded = {row.parameter for row in rows if row.value is None}
    told = [one for one in parameters if one.name not in confounded]
    mains = [column for _, column in columns]
    interactions, not_estimable = _interactions(told, mains, y, level)
    return Effects(
        _judged(rows, higher_is_better),
        _judged(interactions, higher_is_better),
        not_estimable,
        left_out,
        _bends(told, mains, y, level),
        len(y),
        fit.df,
        fit.residual_sd,
        fit.explained,
    )


def _fit(columns: Sequence[Column], y: Floats, level: float) -> LeastSquares:
    matrix = np.stack([column.values for column in columns], axis=1) if columns else np.empty((len(y), 0))
    return least_squares(matrix, y, level)


def _effect(name: str, scale: Scale, column: Column, found: Coefficient, level: float) -> Effect:
    def spanned(value: float | None) -> float | None:
        return None if value is None else value * column.span

    return Effect(
        parameter=name,
        scale=scale,
        start=column.start,
        end=column.end,
        value=spanned(found.value),
        stderr=spanned(found.stderr),
        ci_low=spanned(found.low),
        ci_high=spanned(found.high),
        level=level,
        p_value=found.p_value,
        p_adjusted=None,
        coefficient=found.value,
        inflation=found.inflation,
    )


def _nearest(columns: Sequence[tuple[Parameter, Column]]) -> list[str]:
    """For each column the other parameter with the column that is correlated most with it; empty if there is none."""
    if not columns:
        return []
    near = np.abs(np.atleast_2d(np.corrcoef(np.stack([column.values for _, column in columns]))))
    names = np.array([one.name for one, _ in columns])
    found = []
    for index, name in enumerate(names):
        others = np.flatnonzero(names != name)
        found.append(str(names[others[np.argmax(near[index, others])]]) if len(others) else "")
    return found


def _judged(rows: Sequence[Effect], higher_is_better: bool) -> list[Effect]:
    """The rows with p-values adjusted over all of them, and what they come to."""
    p_values = [row.p_value for row in rows if row.p_value is not None]
    adjusted = iter(holm(p_values))
    judged = []
    for row in rows:
        if row.p_value is not None and row.value is not None:
            p = next(adjusted)
            word: Conclusion = "better" if (row.value > 0) == higher_is_better else "worse"
            row = replace(row, p_adjusted=p, finding=word if p <= 1 - row.level else "undecided")
        judged.append(row)
    return judged


def _interactions(
    parameters: Sequence[Parameter], mains: Sequence[Column], y: Floats, level: float
) -> tuple[list[Effect], dict[str, str]]:
    """Each pair of parameters, on its own, beside all main effects; and why not."""
    found, why = [], {}
    for a, b in combinations(parameters, 2):
        name = f"{a.name} × {b.name}"
        cells = Counter(zip(a.settings, b.settings, strict=True))
        wanted = len(set(a.settings)) * len(set(b.settings))
        replicated = sum(count >= REPLICATES for count in cells.values())
        if replicated < wanted:
            why[name] = f"{replicated} of {wanted} cells have {REPLICATES} runs"
            continue
        products = [_product(one, other) for one in a.columns for other in b.columns]
        fit = _fit([*mains, *products], y, level)
        own = fit.coefficients[len(mains) :]
        if fit.df < MIN_DF:
            why[name] = f"{fit.df} residual degrees of freedom, {MIN_DF} are needed"
        elif any(one.value is None for one in own):
            why[name] = "confounded with other parameters"
        else:
            scale = a.scale if a.scale == b.scale else "levels"
            found += [_effect(name, scale, column, one, level) for column, one in zip(products, own, strict=True)]
    return found, why


def _bends(parameters: Sequence[Parameter], mains: Sequence[Column], y: Floats, level: float) -> list[str]:
    """Numeric parameters of which a squared term, on its own beside all main effects, is no noise."""
    p_values = {}
    for one in parameters:
        if one.scale == "levels" or len(set(one.settings)) < 3:
            continue
        fit = _fit([*mains, _product(one.columns[0], one.columns[0])], y, level)
        if fit.df >= MIN_DF and (p := fit.coefficients[-1].p_value) is not None:
            p_values[one.name] = p
    adjusted = zip(p_values, holm(list(p_values.values())), strict=True)
    return [name for name, p in adjusted if p <= 1 - level]


def _product(one: Column, other: Column) -> Column:
    """Their product, each centred, so that what they do alone stays with them."""
    values = (one.values - one.values.mean()) * (other.values - other.values.mean())
    return Column(f"{one.start}, {other.start}", f"{one.end}, {other.end}", values, one.span * other.span)
