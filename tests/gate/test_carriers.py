"""One verdict, four carriers and an exit code that never disagree; whatever names say, they stay names."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import stat
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from midflight.analyse.evidence import Evidence, Side
from midflight.errors import ConfigError, shorten
from midflight.gate import Policy, judge
from midflight.gate.files import write_files
from midflight.gate.junit import to_junit
from midflight.gate.markdown import COMMENT_BYTES, to_markdown
from midflight.records import Cost, Estimate, EvalReport, Progress, Verdict
from midflight.schema import verdict_from_json, verdict_schema, verdict_to_json
from midflight.show.verdict import verdict_table

HOSTILE = [
    "plain",
    "<script>alert(1)</script>",
    "[click](javascript:x)",
    "a|b\n| c | d |",
    "`x` ``y``",
    "@everyone #1 https://evil.example www.evil.example",
    "![i](https://evil.example/i.png)",
    "\x1b[31mred\x00\u202e",
    "[bold red]x[/bold red]",
    "]]>&lt;!--",
    "\\`*_{}[]()#+-.!|~>$x$",
    "名前 é",
]
names = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))


def report(task: str, correct: int, n: int, weights: str, status="done", lost=0) -> EvalReport:
    value = correct / n if n else None
    estimate = Estimate(
        "score", "", value, 0.1, 0.0, 1.0, 0.95, n, n, "wilson", {"ok": n - lost, "error": lost},
        higher_is_better=True, lowest=0.0, highest=1.0,
    )  # fmt: skip
    return EvalReport(f"{weights}/{task}", task, "f", {}, {}, weights, status, Progress(3), [estimate], Cost(), 0, 0.0)


@st.composite
def verdicts(draw) -> Verdict:
    """What the judge says of random policies on random evidence, under random names."""
    tasks = draw(st.lists(names, min_size=1, max_size=4, unique_by=lambda name: shorten(name, 900)))
    rules, evidence, against = [], {}, {}
    for index, task in enumerate(tasks):
        kind = draw(st.sampled_from(["at_least", "max_drop", "must_improve"]))
        bound = draw(st.sampled_from([0.0, 0.1, 0.8]))
        tier = "blocking" if index == 0 else draw(st.sampled_from(["blocking", "advisory"]))
        rules.append({"task": task, "metric": "score", kind: bound, "tier": tier, "name": draw(names) + str(index)})
        for side in (evidence, against):
            n = draw(st.sampled_from([0, 1, 30, 400]))
            lost = draw(st.sampled_from([0, 0, 0, min(1, n)]))
            status = draw(st.sampled_from(["done", "done", "done", "failed"]))
            weights = "one" if side is against else draw(st.sampled_from(["two", "two", "three"]))
            if draw(st.integers(0, 9)):
                side[task] = Evidence(report(task, draw(st.integers(0, n)), n, weights, status, lost))
    asked = Policy.model_validate(
        {"name": draw(names), "inconclusive": draw(st.sampled_from(["block", "warn", "pass"])), "rules": rules}
    )
    sides = Side(draw(st.one_of(names, st.just("half \ud800"))), evidence), Side(draw(names), against)
    return judge(asked, *sides, id="v", created_at=1.7e9, look=draw(st.integers(0, 3)))


def drawn(verdict: Verdict) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"), highlight=False)  # noqa: SIM115
    console.print(verdict_table(verdict))
    console.file.close()
    return console.export_text()


@settings(max_examples=150)
@given(verdicts())
def test_carriers_and_exit_code_never_disagree(verdict):
    """agentv#882: a failure was printed, and the exit code was 0."""
    word = verdict.outcome
    again = json.loads(verdict_to_json(verdict))
    assert again["outcome"] == word
    root = ElementTree.fromstring(to_junit(verdict))
    red = int(root.get("failures")) + int(root.get("errors"))
    assert re.match(r"### (\w+)", to_markdown(verdict))[1] == word.upper()
    assert drawn(verdict).rstrip().splitlines()[-1].startswith(f"{word.upper()} (α")
    assert verdict.exit_code == {"pass": 0, "fail": 1, "inconclusive": 3}[word]
    blocking = [d for d in again["decisions"] if d["blocks"]]
    assert (verdict.exit_code == 0) == (red == 0) == (not blocking) == (not verdict.reasons)
    assert (word == "fail") == any(d["outcome"] == "fail" for d in blocking)
    assert red == len(blocking) == to_markdown(verdict, 1 << 20).count("| **")
    assert all(not d["blocks"] for d in again["decisions"] if d["tier"] == "advisory")


@settings(max_examples=100)
@given(verdicts())
def test_json_is_of_its_schema_and_comes_back(verdict):
    text = verdict_to_json(verdict)
    jsonschema.validate(json.loads(text), verdict_schema())
    again = verdict_from_json(text)
    assert verdict_to_json(again) == text
    assert again.outcome == verdict.outcome


def test_json_that_is_no_verdict_is_refused():
    for text in ("", "[]", "{}", '{"outcome": "perhaps"}', "[" * 100_000):
        with pytest.raises(ConfigError, match="not a verdict"):
            verdict_from_json(text)


JUNIT = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"name", "tests", "failures", "errors"},
        {"properties", "testcase", "system-out"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name", "classname", "time"}, {"name"}, {"skipped", "error", "failure", "system-out"}),
    "failure": ({"message", "type"}, set(), set()),
    "error": ({"message", "type"}, set(), set()),
    "skipped": ({"message", "type"}, set(), set()),
    "system-out": (set(), set(), set()),
}
"""Allowed and required attributes, and children, of each element in the schema of Jenkins (xunit-plugin, junit-10.xsd)."""


def check_junit(element: ElementTree.Element) -> None:
    allowed, required, children = JUNIT[element.tag]
    assert required <= set(element.attrib) <= allowed, element.tag
    for child in element:
        assert child.tag in children
        check_junit(child)


@settings(max_examples=100)
@given(verdicts())
def test_junit_is_of_the_common_schema_and_its_counts_add_up(verdict):
    root = ElementTree.fromstring(to_junit(verdict))
    assert root.tag == "testsuites"
    check_junit(root)
    cases = list(root.iter("testcase"))
    assert len(cases) == int(root.get("tests")) == len(verdict.decisions)
    for suite in root:
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
    for attribute in ("failures", "errors"):
        assert int(root.get(attribute)) == sum(int(suite.get(attribute)) for suite in root)
    assert {shorten(d.rule, 1000) for d in verdict.decisions} == {case.get("name") for case in cases}


PLAIN = {"h3", "p", "code", "table", "thead", "tbody", "tr", "th", "td", "strong", "ul", "li"}


@settings(max_examples=150)
@given(verdicts())
def test_nothing_that_anybody_wrote_becomes_markup(verdict):
    text = to_markdown(verdict, 1 << 20)
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
    assert set(re.findall(r"</?(\w+)", rendered)) <= PLAIN
    assert set(re.findall(r"<\w+( [^>]*)?>", rendered)) <= {""}  # no attributes
    rows = re.findall(r"<tr>(.*?)</tr>", rendered, re.DOTALL)
    assert len(rows) == len(verdict.decisions) + 1
    assert all(len(re.findall("<t[dh]>", row)) == 6 for row in rows)
    shown = {html.unescape(name) for name in re.findall(r"<code>(.*?)</code>", rendered)}
    assert {shorten(d.rule, 200).strip() for d in verdict.decisions} <= {name.strip() for name in shown}
    prose = re.sub("<code>.*?</code>", "", html.unescape(rendered))
    assert not re.search(r"@\w|#\w|https?://|www\.", prose)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
@example("x" * 5000)
def test_the_terminal_shows_names_as_they_are(name):
    rules = [{"task": "t", "metric": "score", "at_least": 0.5, "name": name or "n"}]
    side = Side("x", {"t": Evidence(report("t", 20, 30, "w"))})
    verdict = judge(Policy.model_validate({"name": "p", "rules": rules}), side, id="v", created_at=0.0)
    assert "\x1b" not in drawn(verdict)


def large(num: int) -> Verdict:
    n, side = 400, {}
    rules = []
    for index in range(num):
        task = f"{index}|" + "<b>@x" * 60
        rules.append({"task": task, "metric": "score", "at_least": 0.5})
        side[task] = Evidence(report(task, 100 if index % 50 == 7 else 390, n, "w"))
    return judge(Policy.model_validate({"name": "p", "rules": rules}), Side("x", side), id="v", created_at=0.0)


@pytest.mark.parametrize("num", [5, 60, 3000])
def test_markdown_stays_under_githubs_limit_and_counts_what_it_leaves_out(num):
    verdict = large(num)
    text = to_markdown(verdict)
    assert len(text.encode()) <= COMMENT_BYTES
    shown = len(re.findall(r"^\| (\*\*fail\*\*|pass) \|", text, re.MULTILINE))
    left = re.search(r"(\d+) more rows are left out \((.*?)\)", text)
    assert shown + (int(left[1]) if left else 0) == len(verdict.decisions)
    rows = re.findall(r"^\| (\*\*fail\*\*|pass) \|", text, re.MULTILINE)
    assert rows == sorted(rows)  # what fails comes first: * sorts before letters
    if left:
        assert sum(int(count) for count in re.findall(r"(\d+) \w+", left[2])) == int(left[1])


def test_many_warnings_are_cut_too():
    verdict = dataclasses.replace(large(5), warnings=["w" * 3000] * 500)
    text = to_markdown(verdict)
    assert len(text.encode()) <= COMMENT_BYTES
    assert "490 more warnings" in text


class TestFiles:
    def test_three_files_say_the_same(self):
        verdict = large(60)
        paths = write_files(verdict, Path("out/deep"))
        assert sorted(path.name for path in Path("out/deep").iterdir()) == ["junit.xml", "summary.md", "verdict.json"]
        assert verdict_from_json(paths[0].read_bytes()).outcome == "fail"
        assert ElementTree.parse(paths[1]).getroot().get("failures") == "2"
        assert paths[2].read_text().startswith("### FAIL")

    def test_they_are_replaced_whole_or_not_at_all(self):
        write_files(large(5), Path("out"))
        before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
        Path("out").chmod(stat.S_IRUSR | stat.S_IXUSR)
        try:
            if not _is_root():
                with pytest.raises(ConfigError, match="out: cannot be written"):
                    write_files(large(60), Path("out"))
        finally:
            Path("out").chmod(stat.S_IRWXU)
        assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before

    def test_a_file_in_the_way_is_told_and_nothing_is_left_behind(self):
        Path("out").write_text("mine")
        with pytest.raises(ConfigError, match="out: cannot be written"):
            write_files(large(5), Path("out"))
        Path("other/verdict.json").mkdir(parents=True)
        with pytest.raises(ConfigError, match="other: cannot be written"):
            write_files(large(5), Path("other"))
        assert [path.name for path in Path("other").iterdir()] == ["verdict.json"]


def _is_root() -> bool:
    import os

    return os.geteuid() == 0
