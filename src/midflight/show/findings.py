"""What was noticed in runs, as a table and in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from midflight.analyse.diagnose import Diagnosis
from midflight.errors import one_line, shorten
from midflight.records import Finding
from midflight.show.tables import cell, new_table

COLOURS = {"note": "cyan", "warn": "yellow", "stop": "red"}
_KINDS = {
    "pretrain": "pre-training",
    "sft": "SFT",
    "reward_model": "reward model",
    "preference": "preference",
    "rl": "RL",
    "unknown": "not known",
}


def diagnoses_table(diagnoses: Sequence[Diagnosis]) -> Table:
    """A row a run: what is trained, how much there was to look at, what was noticed and since when."""
    table = new_table("what was noticed", "run", "kind", "records", "steps", "findings")
    for one in diagnoses:
        steps = f"{one.first_step}–{one.last_step}" if one.num_records else "–"
        found = Text("\n").join(_short(finding) for finding in one.findings) if one.findings else Text(_nothing(one))
        kind = _KINDS[one.algorithm] if one.num_records else "–"  # nothing to guess by
        table.add_row(cell(one.run), kind, f"{one.num_records:,}", steps, found)
    return table


def finding_text(finding: Finding) -> Group:
    """A finding whole: what was seen, what it means, what to try, what would confirm it."""
    head = _short(finding)
    head.append(f": {one_line(finding.text)}")
    rest = Table.grid(padding=(0, 1))  # so that longer lines go on below their text
    for name, text in (("means", finding.meaning), ("try", finding.advice), ("confirm", finding.confirm)):
        if text:
            rest.add_row(Text(f"    {name}"), Text(text))
    return Group(head, rest)


def print_findings(console: Console, diagnoses: Sequence[Diagnosis]) -> None:
    """Prints every finding of every run, with who could judge."""
    for one in diagnoses:
        console.print(f"\n{shorten(one.run)}", style="bold", markup=False)
        for finding in one.findings:
            console.print(finding_text(finding))
        console.print(f"{_judges(one)}", markup=False, style="dim")


def _short(finding: Finding) -> Text:
    text = Text(finding.kind, style=COLOURS[finding.severity])
    since = f" (since {finding.onset})" if finding.onset != finding.noticed else ""
    return text.append(f" {finding.severity} at {finding.noticed}{since}", style="not bold default")


def _nothing(one: Diagnosis) -> str:
    if not one.num_records:
        return "nothing was logged that a detector reads"
    plural = "" if len(one.judged) == 1 else "s"
    if not one.judged:
        return "too little data to say"
    lacking = f"; too little data for {len(one.lacking)}" if one.lacking else ""
    return f"nothing found by {len(one.judged)} detector{plural}{lacking}"


def _judges(one: Diagnosis) -> str:
    lacking = f"; too little data for {', '.join(one.lacking)}" if one.lacking else ""
    failed = "".join(f"; {kind} failed: {what}" for kind, what in one.failed.items())
    return f"{len(one.judged)} detectors had enough data{lacking}{failed}"
