"""What a model has to prove: a TOML file of rules, strict, so that a misspelt key never opens the gate."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from midflight.config import Config, build, read_toml
from midflight.records import Tier

Requirement: TypeAlias = Literal["at_least", "at_most", "max_drop", "max_relative_drop", "must_improve"]
REQUIREMENTS: tuple[Requirement, ...] = ("at_least", "at_most", "max_drop", "max_relative_drop", "must_improve")
EVERY = "*"
"""Value of a slice that stands for all of its values, each a rule of its own."""
DIGEST_CHARACTERS = 12
"""Characters of a fingerprint that name it."""


class Rule(Config):
    """One requirement on one metric of one task.

    Attributes:
        task: The task.
        metric: The metric; also ``seconds``, which each evaluation took.
        slice: ``name=value``, or ``name=*`` for each value by itself; empty = all items.
        name: For people; by default it says what the rule asks for.
        at_least: The true value is above this.
        at_most: The true value is below this.
        max_drop: The true value is worse than the baseline's by less than this.
        max_relative_drop: The same as a share of the baseline's value.
        must_improve: The true value is better than the baseline's by more than this.
        tier: Only blocking rules decide.
        evidence: ``interval`` = it must be proved; ``value`` = the estimate alone decides: only for advisory rules.
            Costs are measured once, and always held against the value.
        min_coverage: Share of the items that must have a score, or a pair of them.
        fingerprint: Only results of this version of the task count: its fingerprint, 12 characters at least, or a
            table of its parts (items, prompt, grader, sampling).
        higher_is_better: Direction, for a metric that has none of its own.
    """

    task: str = Field(min_length=1)
    metric: str = Field(min_length=1)
    slice: str = ""
    name: str = ""
    at_least: float | None = Field(default=None, allow_inf_nan=False)
    at_most: float | None = Field(default=None, allow_inf_nan=False)
    max_drop: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_relative_drop: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    must_improve: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tier: Tier = "blocking"
    evidence: Literal["interval", "value"] = "interval"
    min_coverage: float = Field(default=1.0, gt=0, le=1)
    fingerprint: str | dict[str, str] = ""
    higher_is_better: bool | None = None

    @field_validator("slice")
    @classmethod
    def _names_a_value(cls, slice: str) -> str:
        name, equals, value = slice.partition("=")
        if slice and not (name and equals and value):
            raise ValueError('write "name=value", or "name=*" for each value by itself')
        return slice

    @field_validator("fingerprint")
    @classmethod
    def _is_long_enough(cls, fingerprint: str | dict[str, str]) -> str | dict[str, str]:
        digests = fingerprint.values() if isinstance(fingerprint, dict) else [fingerprint] if fingerprint else []
        if any(len(digest) < DIGEST_CHARACTERS for digest in digests) or fingerprint == {}:
            raise ValueError(f"a digest of {DIGEST_CHARACTERS} characters at least")
        return fingerprint

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Rule:
        said = [name for name in REQUIREMENTS if getattr(self, name) is not None]
        if len(said) != 1:
            raise ValueError(f"says {' and '.join(said) or 'no requirement'}: one of {', '.join(REQUIREMENTS)}")
        if self.evidence == "value" and self.tier == "blocking":
            raise ValueError(
                'evidence = "value" lets noise decide: only in an advisory rule. Costs go by their value anyway'
            )
        contrary = {"at_least": False, "at_most": True}.get(said[0])
        if contrary is not None and self.higher_is_better is contrary:
            raise ValueError(f"{said[0]} contradicts higher_is_better")
        return self

    @property
    def requirement(self) -> Requirement:
        """Which of the requirements it is."""
        return next(name for name in REQUIREMENTS if getattr(self, name) is not None)

    @property
    def bound(self) -> float:
        """The number that it is held against."""
        return float(getattr(self, self.requirement))

    @property
    def compares(self) -> bool:
        """Whether it needs a baseline."""
        return self.requirement in ("max_drop", "max_relative_drop", "must_improve")

    def title(self, slice: str) -> str:
        """The rule's name, on one slice."""
        if self.name:
            return f"{self.name} [{slice}]" if slice != self.slice else self.name
        where = f" [{slice}]" if slice else ""
        return f"{self.task} {self.metric}{where}: {self.requirement} {self.bound:z.6g}"

    @property
    def words(self) -> str:
        """What it asks for."""
        bound = f"{self.bound:z.6g}"
        return {
            "at_least": f"at least {bound}",
            "at_most": f"at most {bound}",
            "max_drop": f"worse than the baseline by at most {bound}",
            "max_relative_drop": f"worse than the baseline by at most {100 * self.bound:z.6g} % of its value",
            "must_improve": f"better than the baseline by more than {bound}",
        }[self.requirement]


class Policy(Config):
    """What a model has to prove before it may go on; needs one blocking rule at least.

    Attributes:
        name: Its name; the file's where it says nothing else.
        description: For people.
        alpha: Largest probability that a model passes which just misses a blocking rule, and that one fails which just
            meets all of them.
        inconclusive: What a blocking rule that is not proved either way does: ``block``, ``warn`` or let it ``pass``.
            Missing evidence always blocks.
        looks: ``once``, or ``every-checkpoint``: `alpha` is kept over all looks at a run together.
        rules: The rules.
    """

    name: str = Field(min_length=1)
    description: str = ""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    inconclusive: Literal["block", "warn", "pass"] = "block"
    looks: Literal["once", "every-checkpoint"] = "once"
    rules: tuple[Rule, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _decides(self) -> Policy:
        if not any(rule.tier == "blocking" for rule in self.rules):
            raise ValueError("no blocking rule: nothing could ever be refused" if self.rules else "no rules")
        keys = [(rule.task, rule.metric, rule.slice, rule.requirement, rule.tier) for rule in self.rules]
        twice = next((key for key, count in Counter(keys).items() if count > 1), None)
        names = [rule.title(rule.slice) for rule in self.rules]
        again = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice or again:
            raise ValueError(f"two rules say the same thing, or have one name: {again or ' '.join(twice or ())}")
        return self

    @property
    def compares(self) -> bool:
        """Whether it needs a baseline."""
        return any(rule.compares for rule in self.rules)

    @property
    def digest(self) -> str:
        """SHA-256 of what it asks for: names and descriptions left out."""
        said = self.model_dump(mode="json", exclude={"name": True, "description": True, "rules": {"__all__": {"name"}}})
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()

    def alpha_at(self, look: int) -> float:
        """The error rate of one look: of the k-th at a run α ÷ (k·(k + 1)), which sums to α over all k.

        By the union bound the rate over any number of looks is α at most, whenever one stops looking.

        >>> rule = Rule(task="t", metric="m", at_least=0.5)
        >>> policy = Policy(name="p", looks="every-checkpoint", rules=(rule,))
        >>> round(sum(policy.alpha_at(look) for look in range(1, 10_000)), 4)
        0.05
        """
        return self.alpha / (look * (look + 1)) if self.looks == "every-checkpoint" else self.alpha


def read_policy(path: str | Path) -> Policy:
    """The policy in a TOML file.

    Raises:
        ConfigError: If it cannot be read, or a key is unknown, missing or wrong; names file and field.
    """
    return build(Policy, {"name": Path(path).stem, **read_toml(path)}, str(path))
