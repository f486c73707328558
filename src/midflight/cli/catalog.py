"""`midflight catalog`: what there is to use."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, print_json
from midflight.show.lines import visible

SECTIONS = {
    "tasks": ("midflight.tasks", ".toml"),
    "metrics": ("midflight.metrics", ".py"),
    "engines": ("midflight.engines", ".py"),
    "sources": ("midflight.tasks.sources", ".py"),
    "importers": ("midflight.analyse.importers", ".py"),
    "detectors": ("midflight.analyse.detectors", ".py"),
    "kinds of task": ("midflight.tasks.kinds", ".py"),
    "steps of a workflow": ("midflight.gate.workflow.steps", ".py"),
}


def catalog(
    key: Annotated[
        str | None, typer.Argument(help="A section, or one of them: print its TOML or its documentation.")
    ] = None,
    json_: JsonOption = False,
) -> int:
    """List all that is a file in a folder (tasks, metrics, engines, detectors, …), a line each; or print one."""
    from midflight import catalog as registry

    chosen = [section for section in SECTIONS if key in (None, section, section.partition(" ")[0])]
    if key is not None and not chosen:
        text = visible(_content(key))
        if json_:
            print_json({key: text})
        else:
            print(text)
        return 0
    found = {
        section: {_shown(one): registry.summary(package, one) for one in registry.keys(package, suffix)}
        for section, (package, suffix) in SECTIONS.items()
        if section in chosen
    }
    if json_:
        print_json(found)
        return 0
    for section, entries in found.items():
        print(section)
        width = max(map(len, entries))
        for key, text in entries.items():
            print(f"  {key:<{width}}  {text}")
    return 0


def _content(key: str) -> str:
    """The TOML of a task, or the documentation of a file that is a plugin; of each, where several have the key."""
    from midflight import catalog as registry

    key = re.sub(r"(?<=[@^])\d+$", "k", key)  # pass@8 is pass@k
    found, known = [], []
    for package, suffix in SECTIONS.values():
        for one in registry.keys(package, suffix):
            known.append(_shown(one))
            if key in (one, _shown(one)):
                found.append(registry.content(package, one))
    if not found:
        raise registry.unknown("keys and sections of the catalog", key, [*known, *SECTIONS])
    return "\n\n".join(text.rstrip() for text in found)


def _shown(key: str) -> str:
    """A key as it is used: files that take a number or a name are shown with it."""
    if key == "reasoning_gym":
        return key
    for ending, sign in (("_at", "@k"), ("_hat", "^k")):
        if key.endswith(ending):
            return key.removesuffix(ending) + sign
    return key
