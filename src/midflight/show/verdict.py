"""A verdict as a table."""

from __future__ import annotations

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from midflight.errors import one_line, shorten
from midflight.records import Decision, Subject, Verdict
from midflight.show.lines import number

_COLOURS = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


def verdict_table(verdict: Verdict) -> Group:
    """All decisions, what keeps it from passing first; then the word itself."""
    table = Table(box=None, pad_edge=False, header_style="bold", title=_title(verdict), title_justify="left")
    for heading in ("outcome", "rule", "candidate", "baseline", "n", "why"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "n" else "left")
    for decision in verdict.worst_first:
        table.add_row(
            _outcome(decision),
            escape(one_line(decision.rule)),
            number(decision.value),
            number(decision.baseline),
            str(decision.n or "–"),
            escape(one_line(decision.reason)),
        )
    lines = [Text(f"warning: {one_line(warning)}", style="yellow") for warning in verdict.warnings]
    look = f", look {verdict.look}" if verdict.look else ""
    word = Text(f"{verdict.outcome.upper()} (α = {verdict.alpha:.2g}{look})", style=f"bold {_COLOURS[verdict.outcome]}")
    return Group(table, *lines, word)


def _title(verdict: Verdict) -> str:
    against = f" against {_subject(verdict.baseline)}" if verdict.baseline is not None else ""
    return escape(f"{shorten(verdict.policy, 80)}: {_subject(verdict.candidate)}{against}")


def _subject(subject: Subject) -> str:
    step = "" if subject.step is None or "@" in subject.label else f", step {subject.step}"
    return shorten(subject.label, 80) + step


def _outcome(decision: Decision) -> str:
    word = decision.outcome if decision.tier == "blocking" else f"{decision.outcome} ({decision.tier})"
    colour = _COLOURS[decision.outcome]
    return f"[bold {colour}]{word}[/]" if decision.blocks else f"[{colour}]{word}[/]"
