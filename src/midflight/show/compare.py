"""Comparisons as tables, and items that flipped with what both sides said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from midflight.analyse.evidence import Evidence
from midflight.analyse.flips import Flip
from midflight.errors import one_line, shorten
from midflight.records import Comparison, OverallIndex, Subject
from midflight.show.items import answer_text, place, said
from midflight.show.lines import number, signed_with_interval, visible

ITEMS_SHOWN = 10
_COLOURS = {"better": "green", "worse": "red", "different": "yellow", "undecided": ""}
_WORDS = {"better": "better", "worse": "worse", "different": "differs", "undecided": "undecided"}
_LABEL = 10


def comparison_table(comparison: Comparison) -> Group:
    """All differences, the overall ones, and what was left out."""
    several = len(comparison.candidates) > 1
    table = Table(title=f"against {_subject(comparison.baseline)}", title_justify="left", title_style="bold")
    headings = ["candidate"] * several + ["task", "metric", "baseline", "candidate", "difference", "p (Holm)"]
    for heading in headings:
        table.add_column(heading, overflow="fold")
    table.add_column("better : worse", justify="right")
    table.add_column("n", justify="right")
    table.add_column("finding")
    for row in comparison.differences:
        colour = _COLOURS[row.finding]
        finding = f"[{colour}]{_WORDS[row.finding]}[/{colour}]" if colour else _WORDS[row.finding]
        cells = [_cell(row.candidate)] * several + [
            _cell(row.task),
            _cell(f"{row.metric} [{row.slice}]" if row.slice else row.metric),
            number(row.baseline_value),
            number(row.candidate_value),
            escape(signed_with_interval(row.value, row.ci_low, row.ci_high)),
            "–" if row.p_adjusted is None else p_text(row.p_adjusted),
            "–" if row.num_better is None else f"{row.num_better} : {row.num_worse}",
            str(row.n),
            finding,
        ]
        table.add_row(*cells)
    lines = [] if several else [f"candidate: {_subject(comparison.candidates[0])}"]
    lines += [_overall(index, several) for index in comparison.overall]
    return Group(table, *[Text(line) for line in [*lines, *_notes(comparison)]])


def p_text(p: float) -> str:
    """A p-value as people write it.

    >>> [p_text(p) for p in (1.0, 0.034, 0.00021, 1e-9)]
    ['1', '0.034', '0.0002', '<0.0001']
    """
    return "<0.0001" if p < 0.0001 else f"{p:.2g}" if p >= 0.001 else f"{p:.1g}"


def _subject(subject: Subject) -> str:
    step = "" if subject.step is None or not subject.run else f", step {subject.step}"
    return f"{shorten(subject.label, 80)}{'' if '@' in subject.label else step}"


def _overall(index: OverallIndex, several: bool) -> str:
    whose = f"{shorten(index.candidate, 60)}: " if several else ""
    left_out = f"; without {', '.join(shorten(one, 60) for one in index.left_out)}" if index.left_out else ""
    value = signed_with_interval(index.value, index.ci_low, index.ci_high)
    return f"{whose}overall, mean of {len(index.tasks)} tasks: {value}, p {p_text(index.p_value)}{left_out}"


def _notes(comparison: Comparison) -> list[str]:
    """What a reader has to know, each thing once, with the rows that it is about."""
    about: dict[str, list[str]] = {}
    for row in comparison.differences:
        alone = row.only_candidate + row.only_baseline
        for note in [*row.note.split("; "), f"{alone} items have a score on one side alone" if alone else ""]:
            if note:
                about.setdefault(note, []).append(f"{row.task}/{row.metric}")
    lines = [f"{', '.join(shorten(one, 60) for one in dict.fromkeys(rows))}: {note}" for note, rows in about.items()]
    tests = dict.fromkeys(f"{row.method}; p: {row.test}" for row in comparison.differences if row.test)
    return [*lines, *(f"left out: {one_line(one)}" for one in comparison.left_out), *(f"method: {t}" for t in tests)]


def print_flips(
    console: Console, found: Sequence[Flip], candidate: Evidence, baseline: Evidence, metric: str, full: bool
) -> None:
    """Prints items that one side alone solves: what was asked, what is right, what both said.

    Args:
        console: Where to.
        found: The items.
        candidate: One side.
        baseline: The other.
        metric: The metric that they were judged by.
        full: Whether to show all items, and all of their texts.
    """
    learned = sum(flip.learned for flip in found)
    task = shorten(candidate.report.task)
    console.print(
        f"\n{task}, {metric}: {learned} learned, {len(found) - learned} forgotten", style="bold", markup=False
    )
    ours, theirs = _said_by_item(candidate), _said_by_item(baseline)
    shown = found if full else _some_of_each(found)
    for flip in shown:
        word, colour = ("learned", "green") if flip.learned else ("forgotten", "red")
        heading = Text(shorten(flip.item, 60), style="bold")
        heading.append(f"  {word}", style=colour)
        heading.append(f"  {number(flip.baseline)} → {number(flip.candidate)}", style="not bold")
        console.print(heading, soft_wrap=True)
        item = candidate.items.get(flip.item)
        texts = [("row", said(item.row)), ("target", said(item.target))] if item is not None else []
        texts += [("before", text) for text in theirs.get(flip.baseline_item, [])]
        texts += [("after", text) for text in ours.get(flip.item, [])]
        for label, text in texts:
            whole = visible(text).replace("\n", "\n" + " " * (_LABEL + 2))
            line = whole if full else shorten(text, max(20, console.width - _LABEL - 2))
            console.print(Text(f"  {label:<{_LABEL}}{line}"), soft_wrap=True)
    if len(shown) < len(found):
        console.print(f"{len(shown)} of {len(found)} items; --full shows all of them, and all of their texts")


def _some_of_each(found: Sequence[Flip]) -> list[Flip]:
    """As many learned ones as forgotten ones, as far as there are."""
    kinds = [flip for flip in found if not flip.learned], [flip for flip in found if flip.learned]
    room = [min(len(kind), max(ITEMS_SHOWN // 2, ITEMS_SHOWN - len(other))) for kind, other in (kinds, kinds[::-1])]
    return [*kinds[0][: room[0]], *kinds[1][: room[1]]]


def _said_by_item(evidence: Evidence) -> Mapping[str, list[str]]:
    """What the model said to each item, in the order of samples and turns."""
    texts: dict[str, list[str]] = {}
    for request, output in sorted(evidence.outputs().items(), key=lambda entry: place(entry[0])):
        texts.setdefault(request.rsplit("/", 2)[0], []).append(output.error or answer_text(output))
    return texts


def _cell(text: str, limit: int = 60) -> str:
    return escape(shorten(text, limit))
