"""Scaling as a table and a picture: times, speed-up, and Amdahl's law with what it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from midflight.analyse.scaling import Scaling
from midflight.errors import ConfigError
from midflight.estimate.amdahl import Amdahl, Prediction
from midflight.show.lines import duration, interval, number
from midflight.show.plot import COLOURS, checked_out, dress, new_figure, save
from midflight.show.tables import cell, new_table

_CURVE_POINTS = 100


def scaling_tables(scaling: Scaling, predictions: Sequence[Prediction]) -> list[RenderableType]:
    """The runs, the law, and what it says of other counts."""
    table = new_table(f"time {scaling.work}", "run", scaling.unit, "time", "work/s", "speed-up", "efficiency", "note")
    for timing in scaling.timings:
        table.add_row(
            cell(timing.run, 60),
            str(timing.count),
            "–" if timing.seconds is None else duration(timing.seconds),
            number(timing.rate),
            number(timing.speedup, 3),
            "–" if timing.efficiency is None else f"{timing.efficiency:.0%}",
            cell(timing.note),
        )
    if scaling.law is None:
        return [table, Text("Amdahl's law needs times of two different counts")]
    found: list[RenderableType] = [table, Text(law_line(scaling.law))]
    if predictions:
        found.append(_predictions(scaling, predictions))
    return found


def law_line(law: Amdahl) -> str:
    """The law in one line.

    >>> from midflight.estimate.amdahl import fit_amdahl
    >>> law_line(fit_amdahl([1, 2], [100.0, 60.0]))
    "Amdahl's law: serial fraction 0.2 (2 runs; two runs give no interval)"
    """
    scatter = f"runs scatter by {law.scatter:.1%}" if law.scatter is not None else ""
    level = f"{law.level:.0%} t" if law.ci_low is not None else ""
    told = "; ".join(filter(None, (f"{law.n} runs", level, scatter, law.note)))
    return f"Amdahl's law: serial fraction {interval(law.serial, law.ci_low, law.ci_high)} ({told})"


def _predictions(scaling: Scaling, predictions: Sequence[Prediction]) -> RenderableType:
    table = new_table("a new run by this law", scaling.unit, "time", "interval", "speed-up over 1", "")
    for one in predictions:
        ends = "–" if one.ci_low is None or one.ci_high is None else f"{duration(one.ci_low)} – {duration(one.ci_high)}"
        outside = "extrapolated: no such run was measured" if one.is_extrapolated else ""
        table.add_row(number(one.count), duration(one.seconds), escape(ends), number(one.speedup, 3), outside)
    return table


def draw_scaling(scaling: Scaling, predictions: Sequence[Prediction], out: str | Path) -> None:
    """Time and speed-up over the number of workers, measured and by the law.

    Args:
        scaling: What was measured.
        predictions: Counts that the law is drawn up to.
        out: ``.png``, ``.svg`` or ``.pdf``.

    Raises:
        ConfigError: If the format is unknown, nothing was timed, or the file cannot be written.
        MissingExtraError: If matplotlib is not installed.
    """
    out = checked_out(out)
    known = [timing for timing in scaling.timings if timing.seconds is not None]
    if not known:
        raise ConfigError("nothing to plot: no run has done the work")
    figure = new_figure(11.2, 4.3)
    from matplotlib.ticker import LogLocator

    times, speeds = figure.subplots(1, 2)
    counts = [timing.count for timing in known]
    _measured(times, counts, [timing.seconds for timing in known])
    _measured(speeds, counts, [timing.speedup for timing in known])
    low, high = min(counts), max([*counts, *(one.count for one in predictions)])
    speeds.plot([low, high], [1, high / low], linestyle=":", color="#555555", label="ideal")
    if scaling.law is not None:
        grid = [low * (high / low) ** (i / _CURVE_POINTS) for i in range(_CURVE_POINTS + 1)]
        _law(times, speeds, [scaling.law.at(count) for count in grid], scaling.law.at(low).seconds)
    ticks = sorted({*counts, *(one.count for one in predictions)})
    for axes, title, y in ((times, f"time {scaling.work}", "seconds"), (speeds, f"speed-up over {low}", "")):
        dress(axes, title, scaling.unit, y)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(ticks, [number(tick) for tick in ticks])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: number(value))
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False)
    if scaling.law is not None:
        figure.supxlabel(law_line(scaling.law), fontsize=7, color="#555555")
    save(figure, out)


def _measured(axes: Any, counts: Sequence[int], values: Sequence[float | None]) -> None:
    axes.plot(counts, values, "o", color=COLOURS[0], markersize=5, label="measured")


def _law(times: Any, speeds: Any, curve: Sequence[Prediction], base: float) -> None:
    """The law within what was measured as a line, outside dashed, with the interval of a new run as a band."""
    for outside, style, label in ((False, "-", "Amdahl's law"), (True, "--", "extrapolated")):
        part = [one for one in curve if one.is_extrapolated == outside]
        if not part:
            continue
        look = {"color": COLOURS[1], "linestyle": style, "linewidth": 1.5, "label": label}
        counts = [one.count for one in part]
        times.plot(counts, [one.seconds for one in part], **look)
        speeds.plot(counts, [base / one.seconds for one in part], **look)
    banded = [one for one in curve if one.ci_low is not None and one.ci_low > 0]
    times.fill_between(
        [one.count for one in banded],
        [one.ci_low for one in banded],
        [one.ci_high for one in banded],
        color=COLOURS[1],
        alpha=0.15,
        linewidth=0,
        label="interval of a new run" if banded else None,
    )
