"""Policies: what is misspelt, contradictory or empty is refused, at the field; the digest is of what is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import ROOT
from midflight.errors import ConfigError
from midflight.gate import Policy, Rule, read_policy

RULE = '[[rules]]\ntask = "t"\nmetric = "m"\n'


def read(text: str) -> Policy:
    Path("release.toml").write_text(text)
    return read_policy("release.toml")


def test_a_policy_is_read_with_its_defaults():
    policy = read(RULE + "max_drop = 0.01\n")
    (rule,) = policy.rules
    assert (policy.name, policy.alpha, policy.inconclusive, policy.looks) == ("release", 0.05, "block", "once")
    assert (rule.tier, rule.evidence, rule.min_coverage, rule.compares) == ("blocking", "interval", 1.0, True)
    assert rule.title("") == "t m: max_drop 0.01"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (RULE + "max_dorp = 0.01\n", "release.toml: unknown key 'rules.0.max_dorp'; did you mean 'max_drop'?"),
        (RULE + 'max_drop = 0.1\n\n[[rules]]\ntask = "t"\nat_least = 1\n', "rules.1.metric: missing"),
        (RULE + "max_drop = -0.01\n", "rules.0.max_drop: input should be greater than or equal to 0 (got -0.01)"),
        (RULE + "at_least = nan\n", "rules.0.at_least: input should be a finite number"),
        (RULE + 'at_least = "0.5"\n', "rules.0.at_least: input should be a valid number (got '0.5')"),
        (RULE, "rules.0: says no requirement: one of at_least, at_most, max_drop"),
        (RULE + "max_drop = 0.1\nat_least = 0.5\n", "rules.0: says at_least and max_drop: one of"),
        (RULE + "at_least = 0.5\nhigher_is_better = false\n", "rules.0: at_least contradicts higher_is_better"),
        (RULE + "at_most = 0.5\nhigher_is_better = true\n", "rules.0: at_most contradicts higher_is_better"),
        (RULE + 'at_least = 0.5\nevidence = "value"\n', 'evidence = "value" lets noise decide'),
        (RULE + 'at_least = 0.5\nslice = "hard"\n', 'rules.0.slice: write "name=value"'),
        (RULE + 'at_least = 0.5\nfingerprint = "abc"\n', "rules.0.fingerprint: a digest of 12 characters at least"),
        (RULE + "at_least = 0.5\nfingerprint = {}\n", "rules.0.fingerprint: a digest of 12 characters at least"),
        (RULE + "at_least = 0.5\nmin_coverage = 0\n", "rules.0.min_coverage: input should be greater than 0"),
        (RULE + 'at_least = 0.5\ntier = "critical"\n', "rules.0.tier: input should be 'blocking' or 'advisory'"),
        ("alpha = 0.5\n" + RULE + "at_least = 0.5\n", "alpha: input should be less than 0.5"),
        ('looks = "often"\n' + RULE + "at_least = 0.5\n", "looks: input should be 'once' or 'every-checkpoint'"),
        ("rules = []\n", "no rules"),
        ("", "rules: missing"),
        (RULE + 'at_least = 0.5\ntier = "advisory"\n', "no blocking rule: nothing could ever be refused"),
        (RULE + "at_least = 0.5\n" + RULE + "at_least = 0.6\n", "two rules say the same thing"),
        (RULE + 'at_least = 0.5\nname = "x"\n' + RULE + 'max_drop = 0.6\nname = "x"\n', "have one name: x"),
        ("rules = [", "release.toml: cannot be read as TOML"),
        ("rules = 3\n", "rules: input should be a valid tuple (got 3)"),
    ],
)
def test_what_is_wrong_is_refused_at_the_field(text, told):
    with pytest.raises(ConfigError) as error:
        read(text)
    assert told in str(error.value)
    assert str(error.value).startswith("release.toml: ")


def test_the_page_is_true():
    """Its policy is one, and its table has all that can be missing."""
    page = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    policy = read(page.split("```toml\n")[1].split("```")[0])
    assert {rule.requirement for rule in policy.rules} >= {"max_drop", "max_relative_drop", "at_least", "must_improve"}
    named = set(re.findall(r"blocks always \| `(\w+)` \|", page))
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/midflight/gate").glob("*.py"))
    known = re.findall(r'(?:Missing\((?:what or )?|what = |missing="" if one else )"(\w+)"', code)
    assert named == set(known)


def test_a_missing_file_is_told():
    with pytest.raises(ConfigError, match="nowhere.toml: cannot be read"):
        read_policy("nowhere.toml")


def test_the_digest_is_of_what_is_asked_and_not_of_names():
    plain = read(RULE + "max_drop = 0.01\n")
    named = read('name = "x"\ndescription = "y"\n' + RULE + 'max_drop = 0.01\nname = "z"\n')
    other = read(RULE + "max_drop = 0.02\n")
    assert plain.digest == named.digest != other.digest
    assert len({plain.digest, read("alpha = 0.01\n" + RULE + "max_drop = 0.01\n").digest}) == 2


def test_looks_never_spend_more_than_alpha_together():
    rule = Rule(task="t", metric="m", at_least=0.5)
    policy = Policy(name="p", alpha=0.05, looks="every-checkpoint", rules=(rule,))
    spent = [policy.alpha_at(look) for look in range(1, 5000)]
    assert spent[0] == 0.025
    assert 0.0499 < sum(spent) < 0.05
    assert Policy(name="p", rules=(rule,)).alpha_at(7) == 0.05
