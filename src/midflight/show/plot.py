"""Curves as pictures: evaluations with interval bands at the checkpoints really measured, training series beside them.

Colours are the Okabe-Ito palette, safe for the colour-blind; line styles tell apart what shares a colour.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from midflight.analyse.groups import GroupCurve, GroupPoint
from midflight.errors import ConfigError, missing_extra, shorten
from midflight.records import Estimate, EvalReport, Finding
from midflight.show.series import Overview

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLES = ("-", "--", ":", "-.")
NUM_LOOKS = len(COLOURS) * len(STYLES)
"""Curves that can be told apart in one picture."""

FINDINGS_SHOWN = 12
"""Marks of findings in a picture at most, the earliest."""

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


class Mark(NamedTuple):
    """A point of a curve with its interval, and whether something of it is missing."""

    at: float
    value: float
    low: float | None
    high: float | None
    lacks: bool


@dataclass(frozen=True, slots=True)
class BandCurve:
    """The mean over a group of runs, at the steps that one of them measured."""

    label: str
    curve: GroupCurve
    group: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture beside others: curves over the same axes, and what was noticed in their runs."""

    title: str
    curves: Sequence[EvaluationCurve | SeriesCurve | BandCurve]
    unit: str = ""
    findings: Mapping[str, Sequence[Finding]] = field(default_factory=dict)


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
    out = checked_out(out)
    if not any(panel.curves for panel in panels):
        raise ConfigError("nothing to plot")
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = 8.6 if any(map(_is_crowded, panels)) else 5.6
    figure = new_figure(width * columns, 3.9 * rows + 0.4)
    looks = _looks([(curve.group or curve.label, curve.label) for panel in panels for curve in panel.curves])
    for index, panel in enumerate(panels):
        _draw_panel(figure.add_subplot(rows, columns, index + 1), panel, looks, x)
    if title:
        figure.suptitle(plain(title, 200), fontsize=12)
    save(figure, out)


def checked_out(out: str | Path) -> Path:
    """A file that a picture can be written to.

    Raises:
        ConfigError: If its format is unknown.
    """
    out = Path(out)
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError("--out", got=str(out), allowed="a file that ends in .png, .svg or .pdf")
    return out


def new_figure(width: float, height: float) -> Any:
    """An empty figure, in inches, that opens no window.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("plotting", "plot", error) from None
    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, out: Path) -> None:
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
        elif isinstance(curve, BandCurve):
            _draw_band(axes, curve, looks[curve.label])
        else:
            _draw_series(axes, curve, looks[curve.label])
    counted = x if any(isinstance(curve, EvaluationCurve) for curve in panel.curves) else "step"
    dress(axes, panel.title, counted, panel.unit)
    if counted == "step":
        _draw_findings(axes, panel.findings)
    if axes.get_legend_handles_labels()[0]:
        outside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "fontsize": 7} if _is_crowded(panel) else {}
        axes.legend(**{"fontsize": 8, "frameon": False, **outside})
    note = _note(panel)
    if note:  # under the axis, where it covers nothing
        axes.annotate(note, (0, 0), (0, -36), "axes fraction", "offset points", fontsize=7, color="#555555", va="top")


def _draw_findings(axes: Any, findings: Mapping[str, Sequence[Finding]]) -> None:
    """A line where something was noticed, with its kind; and whose it is, if there are several runs."""
    several = len(findings) > 1
    marks = [(finding, run) for run, found in findings.items() for finding in found]
    for finding, run in sorted(marks, key=lambda mark: mark[0].noticed)[:FINDINGS_SHOWN]:
        axes.axvline(finding.noticed, color="#555555", linestyle=(0, (1, 2)), linewidth=1.0, zorder=0.5)
        axes.annotate(
            plain(f"{finding.kind} · {run}" if several else finding.kind),
            (finding.noticed, 0.98), (2, 0), ("data", "axes fraction"), "offset points",
            rotation=90, va="top", fontsize=6.5, color="#555555",
        )  # fmt: skip


def dress(axes: Any, title: str, x: str, y: str) -> None:
    """Title, labels and grid as all of our pictures have them."""
    axes.set_title(plain(title, 90), fontsize=10, loc="left")
    axes.set_xlabel(plain(x), fontsize=9)
    axes.set_ylabel(plain(y), fontsize=9)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


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
    bands = [curve.curve for curve in panel.curves if isinstance(curve, BandCurve)]
    points = [point for curve in bands for point in curve.points]
    overviews = [curve.overview for curve in panel.curves if isinstance(curve, SeriesCurve)]
    replaced = sum(curve.num_replaced for curve in panel.curves if isinstance(curve, EvaluationCurve))
    missing = sum(e.value is None or not math.isfinite(e.value) for e in estimates)
    non_finite = sum(overview.num_non_finite for overview in overviews)
    notes = {
        f"{missing} of {len(estimates)} evaluations without a finite value": missing,
        f"{replaced} of older weights at the same step not drawn": replaced,
        "ring = items missing": any(e.partial and e.value is not None for e in estimates),
        _band_note(points): points,
        "ring = a run or items missing": any(p.missing or p.num_partial for p in points),
        "long series: means of equal ranges of steps, min–max shaded": any(map(_is_bucketed, overviews)),
        f"{non_finite:,} NaN or inf not drawn": non_finite,
    }
    return textwrap.fill("; ".join(note for note, holds in notes.items() if holds), 90)


def _band_note(points: Sequence[GroupPoint]) -> str:
    counts = sorted({point.n for point in points})
    runs = "–".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else ""
    return f"mean of {runs} runs" + (
        f", {points[0].level:.0%} t-interval over them" if counts and counts[-1] > 1 else ""
    )


def _is_bucketed(overview: Overview) -> bool:
    return len(overview.steps) < overview.num_points


def _draw_evaluations(axes: Any, curve: EvaluationCurve, look: dict[str, Any], x: XAxis) -> None:
    points = zip([getattr(report.progress, x) for report in curve.reports], curve.estimates(), strict=True)
    drawn = [(at, e) for at, e in points if e.value is not None and math.isfinite(e.value)]
    marked = [Mark(at, e.value, e.ci_low, e.ci_high, e.partial) for at, e in drawn if e.value is not None]
    _draw_marks(axes, marked, curve.label, look)


def _draw_band(axes: Any, curve: BandCurve, look: dict[str, Any]) -> None:
    points = curve.curve.points
    marks = [Mark(p.step, p.value, p.ci_low, p.ci_high, bool(p.missing or p.num_partial)) for p in points]
    _draw_marks(axes, marks, curve.label, look)


def _draw_marks(axes: Any, marks: Sequence[Mark], label: str, look: dict[str, Any]) -> None:
    """A line with a marker at each point, its interval as a band, and a ring where something is missing."""
    axes.plot(
        [m.at for m in marks],
        [m.value for m in marks],
        marker="o",
        markersize=3.5,
        linewidth=1.5,
        label=plain(label),
        **look,
    )
    axes.fill_between(  # a point without an interval leaves a gap in the band
        [m.at for m in marks],
        [math.nan if m.low is None else m.low for m in marks],
        [math.nan if m.high is None else m.high for m in marks],
        color=look["color"],
        alpha=0.15,
        linewidth=0,
    )
    rings = [m for m in marks if m.lacks]
    if rings:
        axes.plot(
            [m.at for m in rings], [m.value for m in rings], "o", markersize=7, fillstyle="none", color=look["color"]
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
