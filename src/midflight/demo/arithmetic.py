"""Sums with feedback: the model answers, is told `<` (too low) or `>` (too high), and tries again.

17+25=41.<42.        solved in the second turn
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from midflight.metrics import SampleMetric
from midflight.records import Item, Output, Sample
from midflight.tasks import Task

LARGEST = 29
"""Operands are 0 to this: sums that a small model learns in a minute, but not at once."""

DISCOUNT = 0.9
"""A solution is worth so much less a turn (AReaL's `turn_discount`)."""

END = "."
ANSWER_TOKENS = 4
EVALUATED_TURNS = 4
NUM_ITEMS = 180


def problems(seed: int, count: int, held_out: bool) -> list[tuple[int, int]]:
    """Pairs of operands; those held out for evaluation are never trained on.

    Args:
        seed: Fixes the draw.
        count: How many.
        held_out: From which side.
    """
    side = [(a, b) for a in range(LARGEST + 1) for b in range(LARGEST + 1) if is_held_out(a, b) == held_out]
    draw = random.Random(seed)
    return draw.sample(side, count) if count <= len(side) else draw.choices(side, k=count)


def is_held_out(a: int, b: int) -> bool:
    """One pair in five, the same for every run."""
    return random.Random(a * 1000 + b).random() < 0.2


def feedback(a: int, b: int, answer: str) -> str | None:
    """What is said back: nothing to a right answer, else which way to go."""
    text = answer.strip()
    if text == str(a + b):
        return None
    return END + ("<" if text.isdigit() and int(text) < a + b else ">")


def reward(turns: int, solved: bool) -> float:
    """Worth of a conversation: 1 if it was solved at once, a tenth less each turn, 0 if it was not."""
    return DISCOUNT ** (turns - 1) if solved else 0.0


class Reward(SampleMetric):
    """The reward that training maximises, measured on held-out sums with up to four turns."""

    key = "reward"
    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grade(self, sample: Sample) -> float:
        """The discounted reward of one conversation."""
        return reward(len(sample.outputs), str(sample.prediction) == str(sample.item.target))


class SumsWithFeedback(Task):
    """Held-out sums, up to four turns, whatever the strategy trained with: one yardstick for all runs."""

    def follow_up(self, item: Item, turns: Sequence[Output]) -> str | None:
        """The feedback on the last answer."""
        if len(turns) >= EVALUATED_TURNS:
            return None
        return feedback(item.row["a"], item.row["b"], turns[-1].text)


def tasks() -> list[Task]:
    """What every run of the demo is measured on."""
    held_out = [{"a": a, "b": b} for a, b in problems(seed=0, count=NUM_ITEMS, held_out=True)]
    conversation = SumsWithFeedback(
        "sums",
        held_out,
        prompt="{{ a }}+{{ b }}=",
        target="a + b",
        samples=4,
        sampling={"temperature": 1.0, "max_tokens": ANSWER_TOKENS},
        metrics=["exact_match", "solved@1", "solved@2", "solved@4", Reward, "token_entropy"],
        version=f"turns {EVALUATED_TURNS}, discount {DISCOUNT}",
    )
    likelihood = Task(
        "solutions",
        held_out,
        kind="loglikelihood",
        prompt="{{ a }}+{{ b }}=",
        text="{{ a + b }}" + END,
        metrics=["perplexity"],
    )
    return [conversation, likelihood]
