"""Perplexity by word: independent of the tokenizer (lm-evaluation-harness' `word_perplexity`)."""

from __future__ import annotations

import re

from midflight.metrics.perplexity import Perplexity
from midflight.records import Sample


class WordPerplexity(Perplexity):
    """exp(−Σ log p ÷ Σ words); words are what white space separates in the counted text."""

    def units(self, sample: Sample) -> float:
        """Words in the counted text."""
        return float(len(re.split(r"\s+", str(sample.item.target))))
