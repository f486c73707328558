"""What was learned and forgotten from checkpoint to checkpoint, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.table import Table

from midflight.analyse.flips import FlipPoint
from midflight.show.plot import COLOURS, checked_out, dress, new_figure, save


def flips_table(points: Sequence[FlipPoint], title: str) -> Table:
    """A row a checkpoint: items solved, learned and forgotten since the one before, solved at any so far, and all."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("step", "solved", "learned", "forgotten", "ever solved", "items"):
        table.add_column(heading, justify="right")
    for index, point in enumerate(points):
        changed = ["–", "–"] if index == 0 else [f"+{point.learned}", f"−{point.forgotten}"]
        table.add_row(str(point.step), str(point.solved), *changed, str(point.ever), str(point.n))
    return table


def draw_flips(points: Sequence[FlipPoint], out: str | Path, title: str) -> None:
    """Draws learned items upwards, forgotten ones downwards, and how many are solved; writes a file.

    Raises:
        ConfigError: If the format is unknown, or the file cannot be written.
        MissingExtraError: If matplotlib is not installed.
    """
    out = checked_out(out)
    figure = new_figure(6.4, 4.8)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    steps = [point.step for point in points]
    above.plot(steps, [point.ever for point in points], "--", color=COLOURS[6], linewidth=1.2, label="ever solved")
    above.plot(steps, [point.solved for point in points], "o-", color=COLOURS[0], markersize=3.5, label="solved now")
    width = 0.6 * min((b - a for a, b in pairwise(steps)), default=1)
    below.bar(steps, [point.learned for point in points], width, color=COLOURS[2], label="learned")
    below.bar(steps, [-point.forgotten for point in points], width, color=COLOURS[1], label="forgotten")
    below.axhline(0, color="#555555", linewidth=0.6)
    dress(above, title, "", f"items of {points[0].n}")
    dress(below, "", "step", "since the one before")
    for axes in (above, below):
        axes.legend(fontsize=8, frameon=False)
    save(figure, out)
