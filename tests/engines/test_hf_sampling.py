"""The sampler at the ends of its draws."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from midflight.engines._hf_sampling import SeededSampler  # noqa: E402
from midflight.records import Sampling  # noqa: E402


@pytest.mark.parametrize("draw", [0.0, 0.5, 1 - 2**-26, 1.0])
def test_no_draw_takes_a_token_of_probability_0(draw, monkeypatch):
    """A draw of almost 1 is 1 as a float32, and so may be its product with the sum of all probabilities."""
    monkeypatch.setattr(torch, "rand", lambda n, **_: torch.full((n,), draw, dtype=torch.float64))
    sampler = SeededSampler([0], Sampling(temperature=1.0, max_tokens=3), "cpu")
    for weights in ([-1e9, 0.0, 0.0, -1e9], [-1e9, 3.0, 1.0, 0.1, -1e9, -1e9], [-1e9, *[0.1] * 1000, -1e9]):
        scores = torch.tensor([weights])
        token = int(sampler(torch.zeros((1, 1), dtype=torch.long), scores).argmax())
        assert 0 < token < len(weights) - 1
        assert scores[0, token] > -1e9
