"""A report: the page as one file, with the answers to what it would ask; it opens from a disk and asks nobody."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import midflight
from midflight.errors import ConfigError, StoreError
from midflight.panel.answers.base import ask
from midflight.panel.panel import Panel
from midflight.panel.plain import encode
from midflight.store import Lease, Pulse, RunInfo, Store

STATIC = Path(__file__).parent / "static"
PLACE = '<script type="application/json" id="midflight-report">null</script>'
MOST_BYTES = 4_500_000
"""What the answers may take; items, which come last, are left out beyond it."""
MOST_ITEMS = 500
MOST_SIDES = 10
"""Runs whose outputs stand side by side."""
_UNRESERVED = "!'()*~"
"""What `encodeURIComponent` leaves as it is, beside letters, digits and ``-_.``."""


def write_report(store: Store, runs: Sequence[RunInfo], out: Path, title: str = "", static: Path = STATIC) -> int:
    """Writes runs as one HTML file.

    Args:
        store: Where they are.
        runs: The runs; nothing of others gets into the file.
        out: The file.
        title: Its title; empty = names of the runs.
        static: Folder of the built page.

    Returns:
        Its size in bytes.

    Raises:
        ConfigError: If the page is not built.
        StoreError: If the file cannot be written.
    """
    template = static / "report.html"
    if not template.is_file():
        raise ConfigError(f"the page of reports is not built: no {template}", hint="cd web && npm ci && npm run build")
    page = template.read_text(encoding="utf-8")
    if page.count(PLACE) != 1:
        raise ConfigError(f"{template} has no place for data", hint="build it again: cd web && npm run build")
    data = encode(report_data(store, runs, title)).decode()
    for sign in "<>&":  # no text may end the script that it stands in
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    text = page.replace(PLACE, PLACE.replace("null", data, 1)).encode()
    try:
        out.write_bytes(text)
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror}") from None
    return len(text)


def report_data(store: Store, runs: Sequence[RunInfo], title: str = "") -> dict[str, Any]:
    """What a report embeds: answers by the URL that the page asks them with."""
    runs = sorted({run.id: run for run in runs}.values(), key=lambda run: run.id)
    panel = Panel(_Chosen(store, runs), background=False)
    ids = [run.id for run in runs]
    answers = {url: ask(panel, url) for url in _pages(ids)}
    matrices = [
        (run, task, f"/api/items?run={run}&task={quote(task, _UNRESERVED)}")
        for run in ids
        for task in dict.fromkeys(one["task"] for one in answers[f"/api/runs/{run}"]["tasks"])
    ]
    answers |= {url: ask(panel, url) for _, _, url in matrices}
    items = _Items(panel, ids, MOST_BYTES - sum(len(encode(answer)) for answer in answers.values()))
    for run, task, _ in matrices:
        items.add(run, task)
    return {
        "version": midflight.__version__,
        "made_at": panel.clock(),
        "title": title or ", ".join(run.name for run in runs)[:200],
        "runs": ids,
        "start": f"/run/{ids[0]}" if len(ids) == 1 else "/",
        "left_out": items.left_out,
        "answers": answers,
        "packed": items.packed(),
    }


def _pages(ids: Sequence[int]) -> Iterator[str]:
    """What the pages ask first."""
    runs = ",".join(map(str, ids))
    yield "/api/projects"
    yield f"/api/runs?runs={runs}"
    yield from (f"/api/runs/{id}" for id in ids)
    yield f"/api/series?keys=*&runs={runs}"
    yield f"/api/evaluations?runs={runs}"
    yield f"/api/findings?runs={runs}"
    yield f"/api/gates?runs={runs}"
    if len(ids) > 1:
        yield f"/api/compare?baseline={ids[0]}&candidates={','.join(map(str, ids[1:]))}"


class _Items:
    """Answers about single items, compressed, as long as there is room: their texts are much alike.

    Args:
        panel: What answers.
        ids: The runs that are shown side by side.
        room: Bytes that there are.
    """

    def __init__(self, panel: Panel, ids: Sequence[int], room: int) -> None:
        self._panel, self._runs, self.room = panel, ",".join(map(str, ids[:MOST_SIDES])), room
        self.left_out: list[str] = []
        self._zip = zlib.compressobj(wbits=31)  # with a header of gzip, which browsers know
        self._parts = [self._zip.compress(b"{")]
        self._known: set[str] = set()

    def add(self, run: int, task: str) -> None:
        """Adds the items of a task, those that flipped most first."""
        name = quote(task, _UNRESERVED)
        found = ask(self._panel, f"/api/items?limit={MOST_ITEMS}&run={run}&sort=flips&task={name}")
        for number, item in enumerate(found["items"]):
            url = f"/api/item?item={quote(item['id'], _UNRESERVED)}&runs={self._runs}&task={name}"
            if url in self._known:
                continue
            if self.room < 0:
                self.left_out.append(f"outputs of {number} of {found['total']} items of {task}")
                return
            text = encode(url) + b":" + encode(ask(self._panel, url))
            part = self._zip.compress((b"," if self._known else b"") + text) + self._zip.flush(zlib.Z_SYNC_FLUSH)
            self._known.add(url)
            self._parts.append(part)
            self.room -= len(part) * 4 // 3  # as base64

    def packed(self) -> str:
        """All of them: base64 of the gzip of an object from URL to answer."""
        return base64.b64encode(b"".join([*self._parts, self._zip.compress(b"}"), self._zip.flush()])).decode()


class _Chosen:
    """A store that has only some of its runs, and does not say where it is: a report is handed around."""

    def __init__(self, store: Store, runs: Sequence[RunInfo]) -> None:
        self._store, self._ids = store, {run.id for run in runs}
        self.url = self.location = Path(store.location).name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def runs(
        self, project: str | None = None, name: str | None = None, ids: Sequence[int] | None = None
    ) -> list[RunInfo]:
        return [run for run in self._store.runs(project, name, ids) if run.id in self._ids]

    def run_ids(self) -> set[int]:
        return self._ids

    def pulses(self) -> list[Pulse]:
        return [pulse for pulse in self._store.pulses() if pulse.run in self._ids]

    def leases(self) -> list[Lease]:
        return []
