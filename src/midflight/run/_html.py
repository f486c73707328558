"""A run as a notebook shows it: what was evaluated with its intervals, and its series as small pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from midflight.errors import shorten
from midflight.records import Estimate, EvalReport
from midflight.store import Overviews, RunInfo, Store
from midflight.store.base import Floats

WIDTH, HEIGHT = 180, 36
BUCKETS = 120
MOST_SERIES = 12
MOST_TASKS = 20


def run_html(store: Store, info: RunInfo) -> str:
    """The run as HTML; names and texts in it are shown as text."""
    heads, reports = store.heads(info.id), store.reports(info.id)
    newest = {report.task: report for report in reports}
    shown = heads[:MOST_SERIES]
    curves = store.read_overviews([info.id], [head.key for head in shown], buckets=BUCKETS)
    pictures = {key: _picture(curves, row) for row, (_, key) in enumerate(curves.series)}
    parts = [f"<b>{_text(f'{info.project}/{info.name}')}</b> (run {info.id}, {info.status})"]
    if newest:
        rows = [_task_row(report) for report in list(newest.values())[:MOST_TASKS]]
        parts.append(_table(("task", "metric", "value", "interval", "n", "step"), rows, len(newest)))
    if heads:
        rows = [[_text(h.key), pictures.get(h.key, ""), f"{h.value:z.4g}", f"{h.step:,}"] for h in shown]
        parts.append(_table(("series", "", "last", "step"), rows, len(heads)))
    if not newest and not heads:
        parts.append("nothing was logged or evaluated yet")
    return f"<div>{''.join(f'<div>{part}</div>' for part in parts)}</div>"


def _task_row(report: EvalReport) -> list[str]:
    first = report.judging[0]
    value = "–" if first.value is None else f"{first.value:z.4g}"
    n = str(first.n) if not first.partial else f"{first.num_scored} of {first.n}"
    return [_text(report.task), _text(first.metric), value, _interval(first), n, f"{report.progress.step:,}"]


def _interval(estimate: Estimate) -> str:
    if estimate.ci_low is None or estimate.ci_high is None:
        return "–"
    return f"[{estimate.ci_low:z.4g}, {estimate.ci_high:z.4g}]"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{value}</td>' for value in row)}</tr>" for row in rows)
    cut = f"<div>{len(rows)} of {total}</div>" if len(rows) < total else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{cut}"


def _text(text: str) -> str:
    return escape(shorten(text, 80))


def _picture(curves: Overviews, row: int) -> str:
    """A line through the means, over the range from minimum to maximum of each bucket."""
    low, high, mean = (array[row].astype(np.float64) for array in (curves.low, curves.high, curves.mean))
    there = np.isfinite(low) & np.isfinite(high) & np.isfinite(mean)
    if not there.any():
        return "no finite value"
    steps = curves.steps[there].astype(np.float64)
    x = _scaled(steps, float(steps[0]), float(steps[-1]), WIDTH)
    bottom, top = float(low[there].min()), float(high[there].max())
    line, under, over = (HEIGHT - _scaled(array[there], bottom, top, HEIGHT) for array in (mean, low, high))
    band = _points(np.append(x, x[::-1]), np.append(over, under[::-1]))
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="-2 -2 {WIDTH + 4} {HEIGHT + 4}" role="img">'
        f'<polygon points="{band}" fill="currentColor" fill-opacity="0.2"/>'
        f'<polyline points="{_points(x, line)}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _scaled(values: Floats, low: float, high: float, size: int) -> Floats:
    span = high / 2 - low / 2  # halves: the whole may be larger than a float
    if not math.isfinite(span) or span <= 0:
        return np.full(len(values), size / 2)
    return (values / 2 - low / 2) / span * size


def _points(x: Floats, y: Floats) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
