"""Verdicts as JSON: what other tools read, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pytest

from midflight.errors import ConfigError
from midflight.records import Decision, Subject, Verdict
from midflight.schema import verdict_from_json, verdict_schema, verdict_to_json


def verdict(**changes) -> Verdict:
    decision = Decision(
        "no drop",
        "blocking",
        "fail",
        "gsm8k: drop of at most 0.01",
        "it dropped",
        "gsm8k",
        "exact_match",
        value=0.5,
        n=10,
    )
    values = {
        "id": "v",
        "outcome": "fail",
        "policy": "release",
        "policy_digest": "0" * 64,
        "candidate": Subject("mt4@5", "math", "mt4", 5, "abcd", {"gsm8k": "e1"}),
        "baseline": Subject("best", step=None),
        "decisions": [decision],
        "reasons": ["no drop: it dropped"],
        "alpha": 0.05,
        "look": 2,
        "created_at": 1.5,
        "software": {"python": "3.11"},
        "environment": {"host": "h"},
    }
    return Verdict(**{**values, **changes})


@pytest.mark.parametrize(
    "found",
    [verdict(), verdict(baseline=None, decisions=[], reasons=[]), verdict(alpha=float("inf"), outcome="inconclusive")],
)
def test_there_and_back_and_valid(found):
    text = verdict_to_json(found, indent=2)
    assert verdict_from_json(text) == found
    jsonschema.validate(json.loads(text), verdict_schema())


def test_a_decision_without_a_number_is_none_and_nan_stays():
    text = verdict_to_json(verdict(decisions=[Decision("r", "advisory", "inconclusive", "x", "y", value=float("nan"))]))
    (decision,) = verdict_from_json(text).decisions
    assert (str(decision.value), decision.difference) == ("nan", None)
    jsonschema.validate(json.loads(text), verdict_schema())


def test_fields_of_a_later_release_are_left_out():
    content = json.loads(verdict_to_json(verdict()))
    content["new"] = content["candidate"]["new"] = content["decisions"][0]["new"] = 1
    assert verdict_from_json(json.dumps(content)) == verdict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "passed"}, "not a verdict of schema 1: outcome: "),
        ({"candidate": None}, "not a verdict of schema 1: candidate: "),
        ({"schema_version": 2}, "the verdict's schema_version; got 2; allowed: up to 1; upgrade midflight"),
    ],
)
def test_what_is_no_verdict_is_refused_by_field(change, message):
    content = {**json.loads(verdict_to_json(verdict())), **change}
    with pytest.raises(ConfigError) as caught:
        verdict_from_json(json.dumps(content))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{" * 10_000, "[" * 100_000, b"\xff", '{"id": ' + "9" * 5_000 + "}"]
)
def test_hostile_texts_are_refused_in_a_line(text):
    with pytest.raises(ConfigError, match="not a verdict of schema 1"):
        verdict_from_json(text)


def test_the_command_prints_the_schema():
    words = [sys.executable, "-m", "midflight", "schema", "verdict"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == json.loads(json.dumps(verdict_schema()))
    assert subprocess.run([*words, "--example"], capture_output=True, timeout=60).returncode == 2
