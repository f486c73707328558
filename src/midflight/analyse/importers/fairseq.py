"""Logs of fairseq: ``| INFO | train_inner | …`` and its epochs, as JSON, as ``loss=3.1, ppl=8.8`` or between bars."""

from __future__ import annotations

import re
from collections.abc import Iterator

from midflight.analyse.importers._json import json_object
from midflight.analyse.importers._numbers import number, step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"\| (train_inner|train|valid|test) \| (?=\{|epoch )|^\s*\| (?=epoch \d)")
_EPOCH = re.compile(r"epoch (\d{1,18})(?::\s+(\d{1,18}) / (\d{1,18}))?")
_SUBSET = re.compile(r"(valid|test)[\w-]* on '([^']{1,100})' subset")
_PAIR = re.compile(r"([A-Za-z_][\w/.-]{0,120})[= ](\S{1,60})")
_UPDATES = "num_updates"


class Fairseq(LineImporter):
    """Updates are steps; means over an epoch are called ``train_loss`` and so on, as in fairseq's JSON."""

    label = "fairseq"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "epoch" not in text or (found := _LINE.search(text)) is None:
            return False
        rest = text[found.end() :]
        kind = found[1] or ""
        raw = json_object(rest, records.source) if rest.startswith("{") else dict(_pairs(rest, kind))
        if raw is None:
            return False
        values = {key: value for key, text in raw.items() if (value := number(str(text))) is not None}
        for _ in range(len(raw) - len(values)):
            records.source.skip("texts among the values", rest)
        step = next((step_of(values.pop(key)) for key in tuple(values) if key.endswith(_UPDATES)), None)
        if step is None:
            step = _counted(rest)
        if not values:
            return False
        records.add_line(
            text,
            found.start(),
            step,
            values,
            evaluation=all(key.startswith(("valid", "test")) for key in values if key != "epoch"),
        )
        return True


def _pairs(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """Names and texts of a line that is no JSON."""
    epoch = _EPOCH.match(text)
    if epoch is None:
        return
    yield "epoch", epoch[1]
    subset = _SUBSET.search(text)
    inner = epoch[2] is not None
    prefix = "" if inner else f"{subset[2]}_" if subset is not None else "train_"
    if subset is not None and not subset[2].startswith(("valid", "test")):
        prefix = f"{subset[1]}_{subset[2]}_"
    for part in text[epoch.end() :].strip(" |").split(", " if "=" in text else "|"):
        if (pair := _PAIR.fullmatch(part.strip(" |,"))) is not None:
            yield f"{prefix}{pair[1]}", pair[2]


def _counted(text: str) -> int | None:
    """The step of a line that names none, where it counts the batches of its epoch."""
    found = _EPOCH.match(text)
    if found is None or found[2] is None:
        return None
    return (int(found[1]) - 1) * int(found[3]) + int(found[2])
