"""A verdict as JUnit XML, which every CI server shows: a test suite a task, a test case a rule.

    the rule …                                       its test case
    passes                                           has passed
    blocks, because it fails or is not proved        <failure type="fail"> or <failure type="inconclusive">
    blocks, because there is no evidence             <error type="…">, with what is missing
    does not pass, but does not block either         <skipped>

So a CI server shows red exactly if the verdict does not pass.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from xml.etree import ElementTree

from midflight.errors import shorten
from midflight.records import Decision, Verdict

LONGEST = 1000
"""Characters of a name or a message."""


def to_junit(verdict: Verdict) -> str:
    """The verdict as JUnit XML, of the elements that Jenkins, GitLab and GitHub's reporters know."""
    root = ElementTree.Element("testsuites", name=_text(verdict.policy))
    for task in dict.fromkeys(decision.task for decision in verdict.decisions):
        own = [decision for decision in verdict.decisions if decision.task == task]
        _add_suite(root, verdict, task or verdict.policy, own)
    _count(root, verdict.decisions)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_suite(root: ElementTree.Element, verdict: Verdict, name: str, decisions: Sequence[Decision]) -> None:
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(verdict.created_at))
    suite = ElementTree.SubElement(root, "testsuite", name=_text(name), timestamp=began)
    _count(suite, decisions)
    suite.set("skipped", str(sum(_kind(decision) == "skipped" for decision in decisions)))
    properties = ElementTree.SubElement(suite, "properties")
    told = {"outcome": verdict.outcome, "policy": verdict.policy_digest, "candidate": verdict.candidate.label}
    for key, value in told.items():
        ElementTree.SubElement(properties, "property", name=key, value=_text(value))
    for decision in decisions:
        classname = _text(f"{verdict.policy}.{name}")
        case = ElementTree.SubElement(suite, "testcase", name=_text(decision.rule), classname=classname)
        kind, message = _kind(decision), _text(decision.reason)
        if kind:
            what = decision.missing or decision.outcome
            found = ElementTree.SubElement(case, kind, message=message, type=_text(what))
            found.text = _text(f"{decision.requirement}: {decision.reason}")
        else:
            ElementTree.SubElement(case, "system-out").text = message


def _count(element: ElementTree.Element, decisions: Sequence[Decision]) -> None:
    kinds = [_kind(decision) for decision in decisions]
    element.set("tests", str(len(kinds)))
    element.set("failures", str(kinds.count("failure")))
    element.set("errors", str(kinds.count("error")))


def _kind(decision: Decision) -> str:
    """The element that a decision becomes; empty if it has passed."""
    if decision.blocks:
        return "error" if decision.missing else "failure"
    return "" if decision.outcome == "pass" else "skipped"


def _text(text: str) -> str:
    """Anybody's text, bounded, and without the characters that XML forbids."""
    return shorten(text, LONGEST)
