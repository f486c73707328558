"""Draws docs/findings/<kind>.png: what each finding looks like, on a seeded synthetic log.

python benchmarks/draw_findings.py [kind ...]
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from _faults import FAULTS, ill
from _synthetic import Log
from matplotlib import pyplot
from matplotlib.axes import Axes
from PIL import Image

from midflight.records import Finding

FOLDER = Path(__file__).parent.parent / "docs" / "findings"
COLOURS = 32
"""Colours of a picture: a page loads in no time."""
RECORDS = (40, 320)
"""Fewest and most records that a picture shows."""


def example(kind: str) -> tuple[Log, Finding]:
    """The first log, by seed, of a size to be drawn in which this is found and nothing was before."""
    for seed in range(500):
        log = ill(kind, np.random.default_rng([seed, 1]))
        found = [one for one in log.diagnose().findings if one.kind == kind and one.noticed >= log.begins]
        if found and RECORDS[0] <= len(log.steps) <= RECORDS[1] and np.median(np.diff(log.steps)) <= 50:
            return log, found[-1]
    raise SystemExit(f"no log shows {kind}")


def draw(kind: str) -> Path:
    """One panel a series of the finding, two at most."""
    log, finding = example(kind)
    names = [name for name in finding.metrics if name in log.values][:2]
    figure, axes = pyplot.subplots(1, len(names), figsize=(6.4, 2.2), dpi=80, squeeze=False, layout="constrained")
    for name, panel in zip(names, axes[0], strict=True):
        _series(panel, log, name, finding)
    axes[0][0].legend(fontsize=7, frameon=False, loc="best")
    path = FOLDER / f"{kind}.png"
    drawing = io.BytesIO()
    figure.savefig(drawing)
    pyplot.close(figure)
    Image.open(drawing).quantize(COLOURS).save(path, optimize=True)
    return path


def _series(panel: Axes, log: Log, name: str, finding: Finding) -> None:
    there = ~log.blank.get(name, np.zeros(len(log.steps), dtype=bool)) & np.isfinite(log.values[name])
    steps, values = log.steps[there], log.values[name][there]
    panel.plot(steps, values, color="#33527a", linewidth=1, marker="." if len(steps) < 30 else None)
    panel.axvspan(finding.onset, log.steps[-1], color="#c0392b", alpha=0.08, linewidth=0)
    panel.axvline(finding.onset, color="#c0392b", linewidth=1, linestyle=":", label=f"onset {finding.onset}")
    panel.axvline(finding.noticed, color="#c0392b", linewidth=1, label=f"noticed {finding.noticed}")
    positive = values[values > 0]
    if len(positive) == len(values) and values.max() > 200 * np.median(values):
        panel.set_yscale("log")
    panel.set_xlim(log.steps[0], log.steps[-1])
    panel.set_title(name, fontsize=8)
    panel.tick_params(labelsize=7)
    panel.set_xlabel("step", fontsize=7)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in sys.argv[1:] or FAULTS:
        drawn = draw(each)
        print(f"{drawn.stat().st_size / 1e3:5.1f} kB  {drawn.name}")
