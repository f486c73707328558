"""A verdict as Markdown, for a pull request's comment or a job's summary on GitHub; what others wrote is only text."""

from __future__ import annotations

import re
from collections import Counter

from midflight.errors import shorten
from midflight.records import Decision, Subject, Verdict

COMMENT_BYTES = 65_536
"""GitHub takes no longer comment; a job's summary may have 1,024 KiB."""
WARNINGS_SHOWN = 10
_HEADINGS = ("outcome", "rule", "candidate", "baseline", "n", "why")


def to_markdown(verdict: Verdict, limit: int = COMMENT_BYTES) -> str:
    """The verdict as Markdown of so many bytes at most: what keeps it from passing first, and what is left out counted.

    Args:
        verdict: The verdict.
        limit: Bytes, 16,384 at least.
    """
    head = "\n".join([*_head(verdict), "", _row(_HEADINGS), _row(["---"] * len(_HEADINGS)), ""])
    tail = "\n".join(["", *_tail(verdict), ""])
    decisions = verdict.worst_first
    rows, room = [], limit - len(head.encode()) - len(tail.encode()) - len(_left_out(decisions).encode())
    for decision in decisions:
        row = _decision_row(decision) + "\n"
        room -= len(row.encode())
        if room < 0:
            break
        rows.append(row)
    return head + "".join(rows) + _left_out(decisions[len(rows) :]) + tail


def _head(verdict: Verdict) -> list[str]:
    against = f" against {_subject(verdict.baseline)}" if verdict.baseline is not None else ""
    lines = [f"### {verdict.outcome.upper()}: {_code(verdict.policy)}", "", _subject(verdict.candidate) + against]
    shown = verdict.warnings[:WARNINGS_SHOWN]
    lines += [""] * bool(shown)
    lines += [f"- warning: {_prose(warning)}" for warning in shown]
    if len(verdict.warnings) > len(shown):
        lines.append(f"- {len(verdict.warnings) - len(shown)} more warnings are in verdict.json")
    return lines


def _subject(subject: Subject) -> str:
    step = f", step {subject.step}" if subject.step is not None else ""
    weights = f", weights {_code(subject.weights[:12])}" if subject.weights else ""
    return f"{_code(subject.label)}{step}{weights}"


def _tail(verdict: Verdict) -> list[str]:
    look = f", look {verdict.look}" if verdict.look else ""
    version = verdict.software.get("midflight", "")
    return [f"α = {verdict.alpha:.2g}{look} · policy {_code(verdict.policy_digest[:12])} · midflight {_prose(version)}"]


def _decision_row(decision: Decision) -> str:
    outcome = decision.outcome if decision.tier == "blocking" else f"{decision.outcome} ({decision.tier})"
    return _row(
        [
            f"**{outcome}**" if decision.blocks else outcome,
            _code(decision.rule),
            _number(decision.value),
            _number(decision.baseline),
            str(decision.n or "–"),
            _prose(decision.reason),
        ]
    )


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _left_out(decisions: list[Decision]) -> str:
    """A line under the table for the rows that found no room."""
    if not decisions:
        return ""
    counts = Counter(decision.outcome for decision in decisions)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return f"\n{len(decisions)} more rows are left out ({told}); verdict.json has them all\n"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:z.4g}"


def _code(text: str) -> str:
    """Anybody's name: within `code`, where GitHub makes no links and calls nobody."""
    return f"<code>{_entities(shorten(text, 200))}</code>"


def _prose(text: str) -> str:
    """Anybody's sentence: what would become a link or call somebody is parted by a space of no width."""
    parted = re.sub(r"(?=[:/.](?:[^\W\d]|/))|(?<=[@#])", "\u200b", shorten(text, 400))
    return _entities(parted)


def _entities(text: str) -> str:
    """All but letters, digits and what is harmless as numbered entities, which are never markup in Markdown or HTML."""
    return "".join(c if c.isalnum() or c in " .,=%;()-–" else f"&#{ord(c)};" for c in text)
