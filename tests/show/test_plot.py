"""What is drawn: the points themselves, or fixed ranges of steps; each variant a curve; notes that cover nothing."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from midflight.run import Run
from midflight.show import plot
from midflight.show.plot import Panel, SeriesCurve
from midflight.show.series import BUCKETS, MAX_POINTS, read_series


def logged(store, values, flush_every=None, name="r") -> int:
    with Run("p", name, store=store, resume="never") as run:
        for step, value in enumerate(values):
            run.log(step, x=float(value))
            if flush_every and step % flush_every == 0:
                run.flush()
    return run.id


def figure_of(panel, x="step"):
    figure = Figure()
    axes = figure.add_subplot()
    plot._draw_panel(axes, panel, plot._looks([(c.group or c.label, c.label) for c in panel.curves]), x)
    return axes


class TestSeries:
    @pytest.mark.parametrize("flush_every", [None, 7, 33])
    def test_a_short_series_is_its_points_however_it_was_flushed(self, store, flush_every):
        values = np.sin(np.arange(100))
        series = read_series(store, logged(store, values, flush_every), "x")
        assert series.steps.tolist() == list(range(100))
        assert series.mean.tolist() == series.low.tolist() == series.high.tolist() == values.tolist()

    def test_a_long_series_does_not_depend_on_flushing_and_keeps_ends_and_extremes(self, store):
        values = np.random.default_rng(0).normal(size=3 * MAX_POINTS)
        values[1234] = 99.0
        values[77] = np.inf
        one, other = (read_series(store, logged(store, values, every), "x") for every in (None, 501))
        for name in ("steps", "low", "high", "mean"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert len(one.steps) == BUCKETS
        assert (one.steps[0], one.steps[-1]) == (0, len(values) - 1)
        assert one.high.max() == 99.0
        assert one.low.min() == values.min()
        assert (one.num_points, one.num_non_finite) == (len(values), 1)

    def test_a_series_of_which_all_was_superseded_is_empty(self, store):
        assert read_series(store, logged(store, []), "x").num_points == 0


class TestPicture:
    def test_one_note_for_all_runs_under_the_axis(self, store):
        curves = [SeriesCurve(n, read_series(store, logged(store, range(3000), name=n), "x")) for n in ("a", "b", "c")]
        axes = figure_of(Panel("loss", curves))
        (note,) = axes.texts
        assert note.get_text() == "long series: means of equal ranges of steps, min–max shaded"
        assert note.xyann[1] < 0

    def test_names_are_no_formulas_and_none_is_hidden(self, store):
        series = read_series(store, logged(store, [1, 2]), "x")
        axes = figure_of(Panel("$\\frac$", [SeriesCurve(n, series) for n in ("_a", "$x_1$", "\udc80")]))
        axes.figure.canvas.draw()  # a broken formula would raise
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [" _a", "\\$x_1\\$", "\\udc80"]
