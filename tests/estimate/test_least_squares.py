"""Least squares equals statsmodels, and what it cannot tell it does not tell."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.outliers_influence import variance_inflation_factor
from statsmodels.tools.sm_exceptions import SingularMatrixWarning

from midflight.estimate.least_squares import least_squares


def design(n=24, seed=0):
    rng = np.random.default_rng(seed)
    columns = np.column_stack([rng.normal(3, 2, n), rng.integers(0, 2, n), 1e6 * rng.normal(1, 0.1, n), rng.random(n)])
    return columns, columns @ [0.5, -1.0, 1e-6, 0.0] + rng.normal(0, 0.3, n) + 100


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_coefficients_errors_intervals_and_p_values_are_those_of_statsmodels(level):
    columns, y = design()
    theirs = sm.OLS(y, sm.add_constant(columns)).fit()
    ours = least_squares(columns, y, level)
    assert (ours.df, ours.explained) == (theirs.df_resid, pytest.approx(theirs.rsquared))
    assert ours.residual_sd == pytest.approx(np.sqrt(theirs.mse_resid))
    assert [one.value for one in ours.coefficients] == pytest.approx(theirs.params[1:])
    assert [one.stderr for one in ours.coefficients] == pytest.approx(theirs.bse[1:])
    assert [one.p_value for one in ours.coefficients] == pytest.approx(theirs.pvalues[1:])
    ends = theirs.conf_int(1 - level)[1:]
    assert [(one.low, one.high) for one in ours.coefficients] == [pytest.approx(tuple(pair)) for pair in ends]
    inflation = [variance_inflation_factor(sm.add_constant(columns), index) for index in range(1, 5)]
    assert [one.inflation for one in ours.coefficients] == pytest.approx(inflation)


def test_collinear_columns_are_named_and_the_others_are_still_statsmodels():
    columns, y = design()
    twice = np.column_stack([columns, 7 - 2 * columns[:, 0], columns[:, 1] + columns[:, 3], np.ones(len(y))])
    with pytest.warns(SingularMatrixWarning):
        theirs = sm.OLS(y, sm.add_constant(twice, has_constant="add")).fit()  # by the pseudo-inverse
    ours = least_squares(twice, y)
    assert ours.df == theirs.df_resid == 24 - 5
    assert [one.confounded_with for one in ours.coefficients] == [(4,), (3, 5), (), (1, 5), (0,), (1, 3), ()]
    assert [one.value is None for one in ours.coefficients] == [True, True, False, True, True, True, True]
    third = ours.coefficients[2]
    assert (third.value, third.stderr) == pytest.approx((theirs.params[3], theirs.bse[3]))


def test_a_saturated_model_has_values_and_no_errors():
    columns, y = np.random.default_rng(0).normal(size=(5, 4)), np.arange(5.0) ** 2
    ours = least_squares(columns, y)
    assert (ours.df, ours.residual_sd) == (0, None)
    assert all(one.value is not None and one.stderr is one.low is one.p_value is None for one in ours.coefficients)
    more = least_squares(np.random.default_rng(0).normal(size=(3, 5)), np.arange(3.0))
    assert [one.value for one in more.coefficients] == [None] * 5


def test_what_does_not_vary_proves_nothing():
    columns, _ = design()
    flat = least_squares(columns, np.full(24, 0.1))
    assert flat.explained is None
    assert [(one.value, one.stderr, one.p_value) for one in flat.coefficients] == [
        (pytest.approx(0, abs=1e-12), 0.0, None)
    ] * 4
    exact = least_squares(columns[:, :1], 3 * columns[:, 0] + 1)
    assert (exact.coefficients[0].value, exact.coefficients[0].p_value) == (pytest.approx(3), None)
    nothing = least_squares(np.empty((4, 0)), np.arange(4.0))
    assert (nothing.coefficients, nothing.df, nothing.explained) == ([], 3, 0.0)
    assert least_squares(np.ones((1, 2)), np.ones(1)).df == 0


@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 3))
def test_units_of_a_column_change_its_coefficient_alone(factor, shift, which):
    columns, y = design()
    scaled = columns.copy()
    scaled[:, which] = factor * (columns[:, which] / np.abs(columns[:, which]).max()) + shift * factor / 1e3
    unit = factor / np.abs(columns[:, which]).max()
    before, after = least_squares(columns, y), least_squares(scaled, y)
    for index, (one, other) in enumerate(zip(before.coefficients, after.coefficients, strict=True)):
        scale = unit if index == which else 1.0
        assert other.value * scale == pytest.approx(one.value, rel=1e-6, abs=1e-9)
        assert other.p_value == pytest.approx(one.p_value, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_outcomes_of_any_size(unit):
    columns, y = design()
    before, after = least_squares(columns, y), least_squares(columns, unit * y)
    assert after.residual_sd == pytest.approx(unit * before.residual_sd)
    assert [one.p_value for one in after.coefficients] == pytest.approx([one.p_value for one in before.coefficients])
