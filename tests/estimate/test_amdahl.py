"""Amdahl's law: against SciPy's curve_fit and statsmodels; what it says of two runs and of runs that break it."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import curve_fit

from midflight.estimate.amdahl import fit_amdahl

COUNTS = [1, 1, 2, 4, 8, 16]
SECONDS = [1010.0, 985.0, 540.0, 290.0, 171.0, 110.0]


def law(n, alone, serial):
    return alone * (serial + (1 - serial) / n)


def test_is_scipys_nonlinear_least_squares():
    fit = fit_amdahl(COUNTS, SECONDS)
    params, covariance = curve_fit(law, np.array(COUNTS, float), SECONDS, p0=(1000, 0.1), sigma=SECONDS)
    assert (fit.seconds_alone, fit.serial) == pytest.approx(tuple(params), rel=1e-6)
    half = stats.t.ppf(0.975, len(COUNTS) - 2) * math.sqrt(covariance[1, 1])
    assert (fit.ci_low, fit.ci_high) == pytest.approx((params[1] - half, params[1] + half), rel=1e-4)
    assert (fit.n, fit.counts, fit.note) == (6, (1, 16), "")


@pytest.mark.parametrize(("count", "outside"), [(3, False), (16, False), (64, True)])
def test_the_interval_of_a_new_run_is_statsmodels(count, outside):
    import statsmodels.api as sm

    found = fit_amdahl(COUNTS, SECONDS).at(count)
    design = sm.add_constant(1 / np.array(COUNTS, float))
    model = sm.WLS(SECONDS, design, weights=np.array(SECONDS) ** -2.0).fit()
    theirs = model.get_prediction(np.array([[1, 1 / count]]), weights=found.seconds**-2)
    assert found.seconds == pytest.approx(theirs.predicted_mean[0])
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(theirs.conf_int(obs=True)[0]), rel=1e-6)
    assert found.is_extrapolated is outside


@given(st.floats(0.001, 0.9), st.floats(1, 1e6))
def test_finds_the_law_that_made_the_times(serial, alone):
    counts = [1, 2, 8, 32]
    fit = fit_amdahl(counts, [law(n, alone, serial) for n in counts])
    assert (fit.serial, fit.seconds_alone) == (pytest.approx(serial, abs=1e-9), pytest.approx(alone))
    assert fit.at(64).speedup == pytest.approx(1 / (serial + (1 - serial) / 64))


def test_a_time_that_floats_cannot_hold_is_still_above_nothing():
    fit = fit_amdahl([1, 2, 4], [100.0, 50.0, 25.0])
    for count in (10**6, 10**9, 10**18):
        assert fit.at(count).seconds >= 100.0 / count * (1 - 1e-9) > 0
        assert fit.at(count).speedup <= count * (1 + 1e-9)


def test_two_runs_have_no_interval_and_one_count_no_law():
    fit = fit_amdahl([1, 4], [100.0, 40.0])
    assert (fit.serial, fit.ci_low, fit.scatter) == (pytest.approx(0.2), None, None)
    assert fit.note == "two runs give no interval"
    assert fit.at(8).ci_low is None
    assert fit_amdahl([4, 4], [100.0, 90.0]) is None
    assert fit_amdahl([], []) is None


@pytest.mark.parametrize(("seconds", "serial"), [([100.0, 20.0], 0.0), ([100.0, 110.0], 1.0)])
def test_two_runs_have_no_interval_either_where_the_fraction_is_clipped(seconds, serial):
    fit = fit_amdahl([1, 4], seconds)
    assert (fit.serial, fit.ci_low, fit.ci_high, fit.scatter) == (serial, None, None, None)
    assert fit.note.endswith(f"clipped at {serial:.0f}; two runs give no interval")
    assert (fit.at(2).ci_low, fit.at(8).ci_high) == (None, None)


@pytest.mark.parametrize(("seconds", "serial"), [([100.0, 25.0, 6.2, 1.6], 0.0), ([100.0, 140.0, 161.0, 171.0], 1.0)])
def test_an_interval_outside_of_what_a_fraction_can_be_is_none(seconds, serial):
    fit = fit_amdahl([1, 2, 4, 8], seconds)
    assert (fit.serial, fit.ci_low, fit.ci_high) == (serial, None, None)
    assert fit.note.endswith("its interval lies wholly outside of 0 to 1")


def test_a_superlinear_speed_up_is_clipped_and_says_so():
    fit = fit_amdahl([1, 2, 4], [100.0, 45.0, 20.0])
    assert (fit.serial, fit.ci_low) == (0.0, 0.0)
    assert fit.note == "speed-up is superlinear: the serial fraction is clipped at 0"
    assert fit.at(8).seconds == pytest.approx(fit.seconds_alone / 8)
    assert fit.at(8).ci_low > 0


def test_more_workers_that_are_slower_are_clipped_and_say_so():
    fit = fit_amdahl([1, 2, 4], [100.0, 110.0, 120.0])
    assert (fit.serial, fit.ci_high) == (1.0, 1.0)
    assert fit.note == "more workers are slower: the serial fraction is clipped at 1"
    assert fit.at(64).seconds == fit.at(1).seconds


def test_the_interval_covers_the_serial_fraction():
    chance = random.Random(1)
    hits = 0
    for _ in range(400):
        times = [law(n, 100, 0.1) * (1 + chance.gauss(0, 0.03)) for n in COUNTS]
        fit = fit_amdahl(COUNTS, times)
        hits += fit.ci_low <= 0.1 <= fit.ci_high
    assert 0.92 <= hits / 400 <= 0.98
