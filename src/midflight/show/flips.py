"""What was learned and forgotten from checkpoint to checkpoint, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.table import Table

from midflight.analyse.flips import FlipPoint
from midflight.show.plot import COLOURS, new_figure, plain, save


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
    figure = new_figure(out, 6.4, 4.8)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    steps = [point.step for point in points]
    above.plot(steps, [point.ever for point in points], "--", color=COLOURS[6], linewidth=1.2, label="ever solved")
    above.plot(steps, [point.solved for point in points], "o-", color=COLOURS[0], markersize=3.5, label="solved now")
    above.set_ylabel(f"items of {points[0].n}", fontsize=9)
    width = 0.6 * min((b - a for a, b in pairwise(steps)), default=1)
    below.bar(steps, [point.learned for point in points], width, color=COLOURS[2], label="learned")
    below.bar(steps, [-point.forgotten for point in points], width, color=COLOURS[1], label="forgotten")
    below.axhline(0, color="#555555", linewidth=0.6)
    below.set_xlabel("step", fontsize=9)
    below.set_ylabel("since the checkpoint before", fontsize=8)
    for axes in (above, below):
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False)
    above.set_title(plain(title, 90), fontsize=10, loc="left")
    save(figure, out)
