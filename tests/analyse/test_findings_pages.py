"""The pages about findings say what the detectors say, and the detector that they show works."""

from __future__ import annotations

import inspect
import re
import sys
import types

import pytest
from PIL import Image

from conftest import ROOT
from midflight import catalog
from midflight.analyse.detectors.base import ANY, Detector, Facts
from midflight.analyse.diagnose import PACKAGE, Watch

KINDS = catalog.keys(PACKAGE)
FOLDER = ROOT / "docs" / "findings"
INDEX = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
ROWS = {row[1]: row[0] for row in re.finditer(r"^\| \[(\w+)\]\(findings/\w+\.md\).*$", INDEX, re.MULTILINE)}


def test_a_page_and_a_row_for_each_detector_and_none_beside():
    assert {path.stem for path in FOLDER.glob("*.md")} == set(KINDS) == set(ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_says_what_the_detector_says(kind):
    detector = catalog.load(PACKAGE, kind, Detector)
    page = (FOLDER / f"{kind}.md").read_text(encoding="utf-8")
    rule = " ".join((inspect.getdoc(detector) or "").split())
    for text in (
        detector.meaning,
        detector.advice,
        detector.confirm,
        f"| rule | {rule} |",
        f"| severity | {detector.severity} |",
    ):
        assert text in page, text
    assert all(f"`{name}" in page for name in detector.needs)
    assert (detector.algorithms == ANY) == ("| where | everywhere |" in page)
    assert f"| {detector.severity} | {rule} |" in ROWS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_its_picture_is_there_and_small(kind):
    path = FOLDER / f"{kind}.png"
    assert f"![{kind}]({kind}.png)" in (FOLDER / f"{kind}.md").read_text(encoding="utf-8")
    assert path.stat().st_size < 25_000
    with Image.open(path) as picture:
        assert picture.width > 400


def test_the_detector_that_the_page_shows_works(monkeypatch):
    (source,) = [block for block in re.findall(r"```python\n(.*?)```", INDEX, re.DOTALL) if "class SlowReward" in block]
    module = types.ModuleType("mypackage_detectors")
    exec(source, module.__dict__)
    monkeypatch.setitem(sys.modules, "mypackage_detectors", module)
    load = catalog.load
    monkeypatch.setattr(
        catalog,
        "load",
        lambda package, kind, base: module.SlowReward if kind == "slow_reward" else load(package, kind, base),
    )
    watch = Watch(Facts("rl"), ["slow_reward"])
    for step in range(40):
        watch.record(step, {"rewards/seconds": 9.0 if step >= 20 else 1.0, "step_time": 10.0})
    (finding,) = watch.findings
    assert (finding.kind, finding.onset, finding.noticed) == ("slow_reward", 20, 29)
