"""Numbers as people read them: a value with as many digits as its error allows, and what stands beside it.

The `z` in a format takes the minus from what rounds to zero.
"""

from __future__ import annotations

import math
import sys

from midflight.errors import shorten
from midflight.records import Decided, Estimate, EvalReport

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_HUGE = 1e15
_MOST_DECIMALS = 6


def number(value: float | None, digits: int = 4) -> str:
    """A number in a few significant digits.

    >>> [number(v) for v in (0.5, 1234567.0, None, float("nan"), 1e-9, -0.0, 9999.9, 2.5e20)]
    ['0.5', '1.235M', '–', 'nan', '1e-09', '0', '10k', '2.5e+20']
    """
    if value is None:
        return "–"
    if not math.isfinite(value):
        return str(value)
    value = float(f"{value:z.{digits}g}")  # rounded first: 9,999.9 is 10k
    unit, letter = _scale(abs(value))
    return f"{value / unit:.{digits}g}{letter}"


def with_interval(estimate: Estimate) -> str:
    """Value and interval, rounded to what the interval can tell, the value to two significant digits at least.

    >>> from midflight.records import Estimate
    >>> with_interval(Estimate("acc", "", 0.51234, 0.01, 0.4917, 0.5329, 0.95, 100, 100, "wilson", {"ok": 100}))
    '0.512 [0.492, 0.533]'
    """
    return interval(estimate.value, estimate.ci_low, estimate.ci_high)


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """A value between the ends of its interval, as far as it has them.

    >>> interval(0.0123456, -0.0021, 0.0267), interval(0.5, None, None), interval(None, None, None)
    ('0.012 [-0.002, 0.027]', '0.5', '–')
    >>> interval(11268.4, 8312.0, 15280.0)
    '11.3k [8.3k, 15.3k]'
    """
    if value is None:
        return "–"
    if low is None or high is None or not all(map(math.isfinite, (value, low, high))) or high <= low:
        return number(value)
    return _with_ends(value, low, high)


def signed_with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A difference with its sign and interval, rounded to what the interval can tell.

    >>> signed_with_interval(0.01234, -0.0042, 0.0288), signed_with_interval(-3.0, None, None)
    ('+0.012 [-0.004, +0.029]', '-3')
    """
    if value is None:
        return "–"
    if low is None or high is None or not all(map(math.isfinite, (value, low, high))) or high <= low:
        return f"{'+' if value > 0 else ''}{number(value)}"
    return _with_ends(value, low, high, "+")


def _with_ends(value: float, low: float, high: float, sign: str = "") -> str:
    """All three in one unit, with as many decimals as the interval can tell; a value without sign has two digits."""
    most = max(abs(low), abs(high))
    unit, letter = _scale(most)
    scaled = [one / unit for one in (value, low, high)]
    digits = _magnitude(scaled[0]) if value and not sign else 2
    decimals = max(2 - _magnitude(scaled[2] - scaled[1]), 2 - digits, 0)
    if most >= _HUGE or decimals > _MOST_DECIMALS:
        return f"{number(value)} [{number(low)}, {number(high)}]"
    shown = [f"{one:{sign}z.{decimals}f}{letter}" for one in scaled]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _scale(size: float) -> tuple[float, str]:
    """The unit in which a size is written, and its letter; 1 where it needs none.

    >>> [_scale(size) for size in (9999.0, 10000.0, 2e6)]
    [(1.0, ''), (1000.0, 'k'), (1000000.0, 'M')]
    """
    found = (one for one in _SCALES if _HUGE > size >= (10 * one[0] if one[0] == 1e3 else one[0]))
    return next(found, (1.0, ""))


def _magnitude(value: float) -> int:
    """Digits before the decimal point; less than 1 below 0.1.

    >>> [_magnitude(v) for v in (25.0, 1.0, 0.75, 0.05)]
    [2, 1, 0, -1]
    """
    return math.floor(math.log10(abs(value))) + 1


def duration(seconds: float) -> str:
    """Seconds, minutes or hours.

    >>> [duration(s) for s in (0.35, 42.0, 200.0, 7300.0)]
    ['0.3 s', '42 s', '3 min 20 s', '2 h 1 min']
    """
    if seconds < 10:
        return f"{math.floor(seconds * 10) / 10:g} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def visible(text: str) -> str:
    """A text of several lines with its control characters made visible; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def say(text: str) -> None:
    """Prints a line, whatever standard output can take; a closed one is nobody's business but its reader's."""
    try:
        print(text, flush=True)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), flush=True)
    except (OSError, ValueError):
        pass


def without_value(report: EvalReport) -> list[Estimate]:
    """Metrics that have no value although items were answered: they raised, or are not defined on these answers."""
    return [e for e in report.judging if e.value is None and (e.num_scored or e.method == "failed")]


def report_line(report: EvalReport) -> str:
    """One line for a log: step, task, the first metric with its interval, how much of the set, how long."""
    first = report.judging[0]
    missing = "" if not first.partial else f", {first.num_scored} scored"
    where = f"{report.run}, step {report.progress.step}" if report.run else f"step {report.progress.step}"
    metric = f"{shorten(report.task)}: {shorten(first.metric)} {with_interval(first)}"
    text = f"midflight: {where}: {metric} (n={first.n}{missing})"
    share = report.cost.train_share
    # before the first step training has taken no time that a share could be of
    told = f", {share:.1%} of the run" if share is not None and report.progress.step else ""
    cost = duration(report.cost.seconds) + told
    notes = (
        ""
        if report.status == "done"
        else f" {report.status.upper()}: "
        + "; ".join(f"{count} × {shorten(reason, 100)}" for reason, count in list(report.errors.items())[:3])
    )
    reasons = [shorten(f"{e.metric} has no value: {e.note}") for e in without_value(report)]
    decided = [] if report.decided is None else [decided_line(report.decided)]
    return "; ".join([f"{text} in {cost}{notes}", *decided, *reasons])


def decided_line(decided: Decided) -> str:
    """What a sequential rule says, and of what.

    >>> from midflight.records import Decided
    >>> found = Decided("acc", "not_worse", 0.03, 0.05, 0, "r@0", "id", "pass", True, 250, 1319, 21.4, 0.004,
    ...                 -0.0291, 0.0372, 0.9, "betting")
    >>> print(decided_line(found))
    pass after 250 of 1,319 items: acc not worse than r@0 by more than 0.03 (+0.004 [-0.029, +0.037], 90 %; e = 21.4)
    """
    place = "" if decided.difference is None else f"{decided.difference:+z.3f} "
    interval = f"{place}[{decided.ci_low:+z.3f}, {decided.ci_high:+z.3f}], {decided.level:.0%}".replace("%", " %")
    looked = f"{decided.outcome} after {decided.n:,} of {decided.size:,} items"
    evidence = "certain" if math.isinf(decided.e_value) else f"e = {number(decided.e_value, 3)}"
    return f"{looked}: {shorten(decided.rule)} ({interval}; {evidence})"
