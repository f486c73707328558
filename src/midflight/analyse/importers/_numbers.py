"""Numbers as logs write them: ``1,010.16``, ``-inf``, ``nan``, ``487ms``, ``156.33GiB``."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from midflight.analyse.names import canonical_name

_EXPONENT = r"(?:[eE][-+]?\d+)?"
NUMBER = (
    rf"[-+]?(?:(?:\d{{1,3}}(?:,\d{{3}})+(?![\d,])|\d+)(?:\.\d*)?{_EXPONENT}|\.\d+{_EXPONENT}|(?i:nan|inf(?:inity)?))"
)
"""A number; what stands after it is for the pattern around it to say."""
SCALE = r"(?:([KMGBT])(?![\w/]))?"
"""A factor such as the one of ``43.2K``; a unit may follow."""
UNIT = r"(?:\s?(?:ms|s|sec|min|m|h|%|[KMGT]i?B|tok(?:ens)?/s(?:ec)?|it/s|s/it))?"
_WHOLE = re.compile(NUMBER)
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_CLOCK = re.compile(r"(?:(\d{1,6}) days?, ?)?(\d{1,6}):(\d\d):(\d\d(?:\.\d+)?)")
_WORDS = re.compile(r"(?:(\d{1,6})d ?)?(?:(\d{1,6})h ?)?(?:(\d{1,6})m ?)?(\d{1,9}(?:\.\d+)?)s")
_DURATIONS = frozenset({"elapsed_time", "remaining_time", "step_time"})
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d*)?(Z|[+-]\d\d:?\d\d)?")
MISSING = frozenset({"", "n/a", "na", "none", "null", "-", "--", "undefined", "nil"})
"""What logs write where there is no value; a number is never made of it."""


def number(text: str) -> float | None:
    """The number that a text is; None if it is none.

    >>> [number(text) for text in ("1,010.16", "-inf", "3e-4", "0:00:26", "N/A", "1,2")]
    [1010.16, -inf, 0.0003, None, None, None]
    """
    text = text.strip()
    try:
        # float() takes 1_000 and digits of all scripts, which no log writes
        return float(text) if "_" not in text and text.isascii() else None
    except ValueError:
        return float(text.replace(",", "")) if _WHOLE.fullmatch(text) else None


def scaled(text: str, factor: str) -> float:
    """What a match of `NUMBER` and the letter of `SCALE` mean.

    >>> [scaled("43.2", "K"), scaled("1,024", "")]
    [43200.0, 1024.0]
    """
    return float(text.replace(",", "")) * _FACTORS[factor]


def duration(text: str) -> float | None:
    """Seconds that a text names; None if it names none.

    >>> [duration(text) for text in ("0:26:03", "3 days, 17:51:32", "46m 13s", "6s", "26:03", "soon")]
    [1563.0, 323492.0, 2773.0, 6.0, None, None]
    """
    found = _CLOCK.fullmatch(text.strip()) or _WORDS.fullmatch(text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def value_of(name: str, text: str) -> float | None:
    """What a text holds: a number, a percentage in percent, of a clock a duration in seconds; None if it is none.

    >>> [value_of("loss", "0.5"), value_of("percentage", "2.28%"), value_of("elapsed_time", "0:01:00")]
    [0.5, 2.28, 60.0]
    """
    found = number(text)
    if found is None and text.endswith("%"):
        found = number(text[:-1])
    if found is None and text[-1:].isalnum() and canonical_name(name) in _DURATIONS:
        found = duration(text)
    return found


def is_missing(text: str) -> bool:
    """Whether a text stands for a value that is not there."""
    return text.strip().lower() in MISSING


def step_of(value: object) -> int | None:
    """The step that a value names; None if it is no whole number from 0 up."""
    if isinstance(value, str):
        value = number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 62 or value != int(value):
        return None
    return int(value)


def stamp(text: str) -> float | None:
    """Seconds since the epoch of the first time in a text, taken as UTC if it names no zone; None if there is none.

    >>> stamp("[rank0]:2026-05-24 20:12:37,106 - root - INFO - ")
    1779653557.106
    """
    found = _STAMP.search(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    try:
        when = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0').ljust(6, '0')}{zone or ''}")
    except ValueError:  # the 31st of February
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
