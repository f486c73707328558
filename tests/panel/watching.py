"""What tests of `midflight top` share: runs to look at, and how they look."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from midflight.panel.top.feed import Feed
from midflight.run import Run
from midflight.store import open_store
from midflight.store.base import Block


def feed(store, **options):
    options = {"background": False, **options}
    return Feed(lambda: open_store(store.url, create=False, read_only=True), **options)


def drawn(renderable, width, **options):
    out = io.StringIO()
    Console(file=out, width=width, **options).print(renderable)
    return out.getvalue()


def log(store, name="a", steps=10, config=None, **series):
    with Run("p", name, config, store=store, resume="never") as run:
        for step in range(steps):
            run.log(step, **{key: value(step) for key, value in series.items()})
    return run.info.id


def hostile(store, name):
    """A run as another program may write it: `Run` itself refuses such names."""
    info = store.create_run(name, name, owner=name, config={name: name, "max_steps": 9}, tags=[name])
    store.append_points(info.id, 1, [Block((f"loss/{name}",), np.arange(3), np.arange(3.0), np.ones((1, 3)))])
