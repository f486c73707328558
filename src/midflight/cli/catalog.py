"""`midflight catalog`: what there is to use."""

from __future__ import annotations

import json
import sys

from midflight.cli._options import JsonOption

SECTIONS = {
    "tasks": ("midflight.tasks", ".toml"),
    "metrics": ("midflight.metrics", ".py"),
    "engines": ("midflight.engines", ".py"),
    "sources": ("midflight.tasks.sources", ".py"),
    "kinds of task": ("midflight.tasks.kinds", ".py"),
}


def catalog(json_: JsonOption = False) -> int:
    """List tasks, metrics, engines and sources, with one line each."""
    from midflight import catalog as registry

    found = {
        section: {_shown(key): registry.summary(package, key) for key in registry.keys(package, suffix)}
        for section, (package, suffix) in SECTIONS.items()
    }
    if json_:
        json.dump(found, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
        return 0
    for section, entries in found.items():
        print(section)
        width = max(map(len, entries))
        for key, text in entries.items():
            print(f"  {key:<{width}}  {text}")
    return 0


def _shown(key: str) -> str:
    """A key as it is used: files that take a number or a name are shown with it."""
    if key == "reasoning_gym":
        return key
    for ending, sign in (("_at", "@k"), ("_hat", "^k")):
        if key.endswith(ending):
            return key.removesuffix(ending) + sign
    return key
