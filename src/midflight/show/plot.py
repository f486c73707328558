"""Curves as pictures: evaluations with interval bands at the checkpoints really measured, training series beside them.

Colours are the Okabe-Ito palette, safe for the colour-blind; line styles tell apart what shares a colour.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from midflight.errors import ConfigError, missing_extra, shorten
from midflight.records import Estimate, EvalReport
from midflight.store import Overview

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLES = ("-", "--", ":", "-.")
NUM_LOOKS = len(COLOURS) * len(STYLES)
"""Curves that can be told apart in one picture."""

XAxis = Literal["step", "epoch", "tokens"]


@dataclass(frozen=True, slots=True)
class EvaluationCurve:
    """One metric over the evaluations of a run; curves of one `group` share a colour.

    `num_replaced` evaluations are left out: newer weights were evaluated at the same steps.
    """

    label: str
    reports: Sequence[EvalReport]
    metric: str
    slice: str = ""
    group: str = ""
    num_replaced: int = 0

    def estimates(self) -> list[Estimate]:
        """The estimate of each report."""
        return [report.estimate(self.metric, self.slice) for report in self.reports]


@dataclass(frozen=True, slots=True)
class SeriesCurve:
    """One training series of a run; curves of one `group` share a colour."""

    label: str
    overview: Overview
    group: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture beside others: curves over the same axes."""

    title: str
    curves: Sequence[EvaluationCurve | SeriesCurve]
    unit: str = ""


def draw(panels: Sequence[Panel], out: str | Path, x: XAxis = "step", title: str = "") -> None:
    """Draws panels side by side and writes them to a file.

    Args:
        panels: What to draw.
        out: ``.png``, ``.svg`` or ``.pdf``.
        x: What the horizontal axis counts; training series always count steps.
        title: Title of the whole.

    Raises:
        ConfigError: If the format is unknown or there is nothing to draw.
        MissingExtraError: If matplotlib is not installed.
    """
    if not any(panel.curves for panel in panels):
        raise ConfigError("nothing to plot")
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = 8.6 if any(map(_is_crowded, panels)) else 5.6
    figure = new_figure(out, width * columns, 3.9 * rows + 0.4)
    looks = _looks([(curve.group or curve.label, curve.label) for panel in panels for curve in panel.curves])
    for index, panel in enumerate(panels):
        _draw_panel(figure.add_subplot(rows, columns, index + 1), panel, looks, x)
    if title:
        figure.suptitle(plain(title, 200), fontsize=12)
    save(figure, out)


def new_figure(out: str | Path, width: float, height: float) -> Any:
    """A matplotlib figure, of so many inches, for a file.

    Raises:
        ConfigError: If the file's format is unknown.
        MissingExtraError: If matplotlib is not installed.
    """
    if Path(out).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError("--out", got=str(out), allowed="a file that ends in .png, .svg or .pdf")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("plotting", "plot", error) from None
    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, out: str | Path) -> None:
    """Writes a figure to its file.

    Raises:
        ConfigError: If it cannot be written.
    """
    try:
        figure.savefig(out)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror or error}") from None


def _looks(curves: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Colour and line style of each label, the same in all panels: a colour a group, a style within it.

    Where there are more groups than colours, the colours come again with other styles.
    """
    members: dict[str, list[str]] = {}
    for group, label in dict.fromkeys(curves):
        members.setdefault(group, []).append(label)
    return {
        label: {"color": COLOURS[g % len(COLOURS)], "linestyle": STYLES[(g // len(COLOURS) + s) % len(STYLES)]}
        for g, labels in enumerate(members.values())
        for s, label in enumerate(labels)
    }


def _draw_panel(axes: Any, panel: Panel, looks: dict[str, dict[str, Any]], x: XAxis) -> None:
    for curve in panel.curves:
        if isinstance(curve, EvaluationCurve):
            _draw_evaluations(axes, curve, looks[curve.label], x)
        else:
            _draw_series(axes, curve, looks[curve.label])
    axes.set_title(plain(panel.title, 90), fontsize=10, loc="left")
    axes.set_xlabel(x if any(isinstance(curve, EvaluationCurve) for curve in panel.curves) else "step", fontsize=9)
    axes.set_ylabel(plain(panel.unit), fontsize=9)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        outside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "fontsize": 7} if _is_crowded(panel) else {}
        axes.legend(**{"fontsize": 8, "frameon": False, **outside})
    note = _note(panel)
    if note:  # under the axis, where it covers nothing
        axes.annotate(note, (0, 0), (0, -36), "axes fraction", "offset points", fontsize=7, color="#555555", va="top")


def plain(text: str, limit: int = 60) -> str:
    """A text of a user's for matplotlib, which reads formulas between dollars and hides labels that begin with `_`."""
    shown = shorten(text, limit).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _is_crowded(panel: Panel) -> bool:
    """Whether its legend would cover the curves, so that it stands beside them."""
    return len(panel.curves) > 6


def _note(panel: Panel) -> str:
    """What a reader has to know of a panel's curves together, in a line or two."""
    estimates = [e for c in panel.curves if isinstance(c, EvaluationCurve) for e in c.estimates()]
    overviews = [curve.overview for curve in panel.curves if isinstance(curve, SeriesCurve)]
    replaced = sum(curve.num_replaced for curve in panel.curves if isinstance(curve, EvaluationCurve))
    missing = sum(e.value is None or not math.isfinite(e.value) for e in estimates)
    non_finite = sum(overview.num_non_finite for overview in overviews)
    notes = {
        f"{missing} of {len(estimates)} evaluations without a finite value": missing,
        f"{replaced} of older weights at the same step not drawn": replaced,
        "ring = items missing": any(e.partial and e.value is not None for e in estimates),
        "long series: means of equal ranges of steps, min–max shaded": any(map(_is_bucketed, overviews)),
        f"{non_finite:,} NaN or inf not drawn": non_finite,
    }
    return textwrap.fill("; ".join(note for note, holds in notes.items() if holds), 90)


def _is_bucketed(overview: Overview) -> bool:
    return len(overview.steps) < overview.num_points


def _draw_evaluations(axes: Any, curve: EvaluationCurve, look: dict[str, Any], x: XAxis) -> None:
    points = zip([getattr(report.progress, x) for report in curve.reports], curve.estimates(), strict=True)
    drawn = [(at, e) for at, e in points if e.value is not None and math.isfinite(e.value)]
    xs, values = [at for at, _ in drawn], [e.value for _, e in drawn]
    axes.plot(xs, values, marker="o", markersize=3.5, linewidth=1.5, label=plain(curve.label), **look)
    banded = [(at, e) for at, e in drawn if e.ci_low is not None and e.ci_high is not None]
    axes.fill_between(
        [at for at, _ in banded],
        [e.ci_low for _, e in banded],
        [e.ci_high for _, e in banded],
        color=look["color"],
        alpha=0.15,
        linewidth=0,
    )
    partial = [(at, e.value) for at, e in drawn if e.partial]
    if partial:
        axes.plot(
            [at for at, _ in partial], [v for _, v in partial], "o", markersize=7, fillstyle="none", color=look["color"]
        )


def _draw_series(axes: Any, curve: SeriesCurve, look: dict[str, Any]) -> None:
    overview = curve.overview
    # markers where points are few: one between two NaN, or a single one, makes no line
    marker = "." if len(overview.steps) <= 200 else ""
    axes.plot(
        overview.steps, overview.mean, linewidth=1.2, marker=marker, markersize=3, label=plain(curve.label), **look
    )
    if _is_bucketed(overview):
        axes.fill_between(overview.steps, overview.low, overview.high, color=look["color"], alpha=0.15, linewidth=0)
