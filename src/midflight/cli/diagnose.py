"""`midflight diagnose`: what is wrong with a run, of the store or of a log."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._logs import of_each, say_unread
from midflight.cli._options import JsonOption, StoreOption, print_json

if TYPE_CHECKING:
    from midflight.analyse.diagnose import Diagnosis

FAILED = 1


def diagnose(
    runs: Annotated[list[str], typer.Argument(help="Runs of the store, or logs: files and folders of any trainer.")],
    kind: Annotated[list[str] | None, typer.Option("--kind", "-k", help="Only this detector; repeat it.")] = None,
    brief: Annotated[bool, typer.Option("--brief", help="The table alone.")] = False,
    fail_on: Annotated[
        str, typer.Option("--fail-on", help="Exit with 1 if there is a finding of note, warn or stop, or worse.")
    ] = "",
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Say what is wrong with runs: spikes, collapse, overfitting, dead rewards; since when, why, and what to do."""
    from midflight.errors import ConfigError
    from midflight.records import SEVERITIES
    from midflight.show.findings import diagnoses_table, print_findings
    from midflight.show.tables import console

    if fail_on and fail_on not in SEVERITIES:
        raise ConfigError("--fail-on", got=fail_on, allowed=", ".join(SEVERITIES))
    found, unread = of_each(runs, lambda name: _diagnoses(name, store, kind))
    if json_:
        print_json([dataclasses.asdict(one) for one in found])
    else:
        out = console()
        out.print(diagnoses_table(found))
        if not brief:
            print_findings(out, [one for one in found if one.findings or len(found) == 1])
    say_unread(unread)
    worst = [finding for one in found for finding in one.findings if fail_on]
    bad = any(SEVERITIES.index(finding.severity) >= SEVERITIES.index(fail_on) for finding in worst)
    return FAILED if bad else 0


def _diagnoses(name: str, store: str | None, kinds: list[str] | None) -> list[Diagnosis]:
    """A log may hold several runs; a name that is no path is a run of the store."""
    from midflight.analyse.diagnose import diagnose_log, diagnose_run
    from midflight.analyse.evidence import find_run, is_there
    from midflight.analyse.importers import read_any
    from midflight.cli._options import existing_store

    if is_there(name):
        return [diagnose_log(log, kinds) for log in read_any(name)]
    opened = existing_store(store)
    return [diagnose_run(opened, find_run(opened, name), kinds)]
