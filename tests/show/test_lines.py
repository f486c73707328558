"""Numbers as people read them."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from midflight.records import Estimate
from midflight.show import progress
from midflight.show.lines import number, with_interval


def estimate(value, low=None, high=None) -> Estimate:
    return Estimate("m", "", value, 0.1, low, high, 0.95, 9, 9, "t", {"ok": 9})


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (0.75, 0.0, 1.0, "0.75 [0.00, 1.00]"),  # one digit would say 0.8
        (0.75, 0.30, 0.9523, "0.75 [0.30, 0.95]"),
        (1.0, 0.83, 1.0, "1.00 [0.83, 1.00]"),  # never beyond the bound
        (0.0, -0.0001, 0.2, "0.00 [0.00, 0.20]"),  # no minus before a zero
        (0.00123, 0.0, 0.4, "0.0012 [0.0000, 0.4000]"),
        (12.3456, 1.0, 30.0, "12 [1, 30]"),
        (1e-9, 0.0, 0.1, "1e-09 [0, 0.1]"),
        (3e20, 2e20, 4e20, "3e+20 [2e+20, 4e+20]"),
        (123456.0, 100.0, 200000.0, "123k [0k, 200k]"),  # one unit, and no digits that the interval does not tell
        (11268.4, 8312.0, 15280.0, "11.3k [8.3k, 15.3k]"),
        (0.5, math.nan, math.inf, "0.5"),
        (0.5, None, None, "0.5"),
        (None, None, None, "–"),
    ],
)
def test_a_value_and_what_is_known_of_it(value, low, high, shown):
    assert with_interval(estimate(value, low, high)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(9999.9, "10k"), (999_999.9, "1M"), (1e15, "1e+15"), (-2e300, "-2e+300"), (-0.0, "0"), (8.5e12, "8.5T")],
)
def test_a_number_alone(value, shown):
    assert number(value) == shown


def test_a_log_is_told_how_long_it_took_and_how_many_tokens(monkeypatch):
    monkeypatch.setattr(progress, "LINE_S", -1.0)
    out = io.StringIO()
    with progress.watching(Console(file=out, width=200)) as tell:
        tell("sums", 5, 12, 34_567)
    assert out.getvalue() == "midflight: sums: 5 of 12 requests, 0 s, 34.57k tokens\n"
