"""The page on tasks is a reference: it names every field, and the columns that each ready-made task reads."""

from __future__ import annotations

import re

import pytest
from jinja2 import meta

from conftest import ROOT
from midflight.tasks import FewShotSpec, SamplingSpec, TaskSpec, load_task, ready_made
from midflight.tasks._template import _environment

PAGE = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
TEMPLATES = ("prompt", "system", "text", "counted", "continuation")
EXPRESSIONS = ("id", "messages", "target", "choices", "chosen", "rejected", "cluster")


def rows_after(heading: str) -> dict[str, list[str]]:
    """The cells of the first table behind a heading, by the name in their first one."""
    table = re.search(r"(?:^\|.*\n)+", PAGE[PAGE.index(f"\n{heading}\n") :], re.MULTILINE)
    cells = [line.strip("| ").split(" | ") for line in table.group().splitlines()[2:]]
    return {row[0].strip("` "): row[1:] for row in cells}


@pytest.mark.parametrize(
    ("heading", "spec"), [("## Fields", TaskSpec), ("`[sampling]`", SamplingSpec), ("`[fewshot]`", FewShotSpec)]
)
def test_it_names_every_field_and_what_is_required(heading, spec):
    rows = rows_after(heading)
    assert list(rows) == list(spec.model_fields)
    required = {name for name, field in spec.model_fields.items() if field.is_required()}
    assert {name for name, cells in rows.items() if cells[0] == "required"} == required - {"name"}
    for name, cells in rows.items():
        if re.fullmatch(r"\d+", cells[0]):
            assert spec.model_fields[name].default == int(cells[0])
        elif re.fullmatch(r'`"(.*)"`', cells[0]):
            assert spec.model_fields[name].default == cells[0][2:-2]


def test_it_names_every_way_to_rank_a_pair():
    assert {name.strip('"') for name in rows_after("### Preferences")} == set(
        TaskSpec.model_fields["scored_by"].annotation.__args__
    )


def columns_of(name: str) -> set[str]:
    spec = load_task(name).spec
    texts = [getattr(spec, field) for field in TEMPLATES] + [
        "{{ " + text + " }}"
        for text in [*(getattr(spec, field) for field in EXPRESSIONS), *spec.slices.values()]
        if text
    ]
    parse = _environment().parse
    return set().union(*(meta.find_undeclared_variables(parse(text)) for text in texts if text)) - {"choice"}


def test_it_names_the_columns_of_every_ready_made_task():
    section = PAGE[PAGE.index("needs these columns") :]
    written = {
        name: set(re.findall(r"`(\w+)`", cells))
        for name, cells in re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    }
    assert written == {name: columns_of(name) for name in ready_made()}
