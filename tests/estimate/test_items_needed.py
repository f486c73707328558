"""Items for a difference, beside statsmodels; samples and clusters told apart on data whose variances are known."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.errors import ConfigError
from midflight.estimate.power import (
    design_effect,
    detectable,
    intraclass_correlation,
    items_needed,
    items_until_decided,
    set_with_mean,
    spread_of_one,
    spread_of_pairs,
    variance,
)


@pytest.mark.parametrize("spread", [0.05, 0.2, 1 / 9, 3.0])
@pytest.mark.parametrize(("detect", "alpha", "power"), [(0.03, 0.05, 0.8), (0.1, 0.01, 0.9), (0.02, 0.1, 0.5)])
def test_items_are_statsmodels(spread, detect, alpha, power):
    """A paired z-test is one sample of differences: `ratio=0`. Its power is two-sided but for the far tail."""
    from statsmodels.stats.power import NormalIndPower, normal_sample_size_one_tail

    exact = normal_sample_size_one_tail(detect, power, alpha / 2, std_null=math.sqrt(spread))
    assert items_needed(spread, detect, alpha=alpha, power=power) == math.ceil(exact)
    n = items_needed(spread, detect, alpha=alpha, power=power)
    reached = NormalIndPower(ddof=0).power(detect / math.sqrt(spread), n, alpha, ratio=0)
    assert reached == pytest.approx(power, abs=0.02)
    assert reached >= power
    assert detectable(spread, n, alpha=alpha, power=power) <= detect


def test_the_power_is_that_of_the_test():
    """1,000 paired comparisons with as many items as planned: four of five see the difference (Miller 2024, section 5)."""
    random = np.random.default_rng(0)
    up, down = 0.14, 0.06
    n = items_needed(up + down - (up - down) ** 2, up - down)
    draws = random.choice([1.0, -1.0, 0.0], p=[up, down, 1 - up - down], size=(1000, n))
    z = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / math.sqrt(n))
    assert (np.abs(z) > 1.96).mean() == pytest.approx(0.8, abs=0.04)


def test_samples_and_items_are_told_apart():
    """4 samples an item with known variances: 0.04 between items, 2 × 0.09 from sampling."""
    random = np.random.default_rng(1)
    truth = random.normal(0, 1, 4000)
    ours, theirs = (truth[:, None] + random.normal(0, 0.3, (4000, 4)) for _ in range(2))
    ours += random.normal(0, 0.2, 4000)[:, None]
    samples = [(a, b) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)]
    found = spread_of_pairs(ours.mean(axis=1).tolist(), theirs.mean(axis=1).tolist(), samples)
    assert found.between == pytest.approx(0.04, abs=0.005)
    assert found.sampling == pytest.approx(0.18, abs=0.01)
    assert found.of_items(4) == pytest.approx(found.total, rel=1e-9)
    assert found.of_items(1) == pytest.approx(0.22, abs=0.01)
    assert found.correlation == pytest.approx(0.95, abs=0.02)
    plain = spread_of_pairs(ours[:, 0].tolist(), theirs[:, 0].tolist())
    assert plain.of_items() == pytest.approx(0.22, abs=0.01)
    with pytest.raises(ConfigError, match="noise of sampling is not known; got 'samples = 2'"):
        plain.of_items(2)


def test_what_lies_between_items_is_not_negative_and_its_rest_is_not_counted_as_sampling():
    """Differences vary less than the noise within items says: all of it is sampling, and no more than was measured."""
    samples = [((0.0, 1.0), (1.0, 0.0)), ((1.0, 0.0), (0.0, 1.0)), ((1.0, 1.0), (0.0, 1.0))]
    ours, theirs = [0.5, 0.5, 1.0], [0.5, 0.5, 0.5]
    found = spread_of_pairs(ours, theirs, samples)
    assert found.total == pytest.approx(1 / 12)  # of the differences 0, 0 and 0.5
    assert found.between == 0.0
    assert found.sampling == pytest.approx(1 / 6)  # twice that: two samples each; the items alone would say 5 ÷ 6
    assert [found.of_items(k) for k in (1, 2, 4)] == pytest.approx([1 / 6, 1 / 12, 1 / 24])


def test_alike_members_are_statsmodels():
    """With clusters of one size the analysis of variance is REML's answer; MixedLM fits that."""
    import statsmodels.api as sm

    random = np.random.default_rng(2)
    clusters = np.repeat(np.arange(60), 5)
    values = random.normal(0, 1, 60)[clusters] + random.normal(0, 1.5, 300)
    fit = sm.MixedLM(values, np.ones(300), groups=clusters).fit(reml=True)
    among = float(fit.cov_re[0, 0]) if isinstance(fit.cov_re, np.ndarray) else float(fit.cov_re.iloc[0, 0])
    names = [str(c) for c in clusters]
    assert intraclass_correlation(values.tolist(), names) == pytest.approx(among / (among + fit.scale), abs=1e-4)
    assert design_effect(names, 0.25) == 2.0


def test_the_design_effect_is_that_of_clustered_errors():
    """Clustered ÷ plain variance of the mean, as `mean_interval` has them, is what the design effect says."""
    from midflight.estimate import mean_interval

    random = np.random.default_rng(3)
    sizes = random.integers(1, 9, 400)
    clusters = [str(c) for c, size in enumerate(sizes) for _ in range(size)]
    values = (np.repeat(random.normal(0, 1, 400), sizes) + random.normal(0, 1, len(clusters))).tolist()
    clustered, plain = mean_interval(values, clusters).stderr, mean_interval(values).stderr
    icc = intraclass_correlation(values, clusters)
    assert icc == pytest.approx(0.5, abs=0.06)
    assert design_effect(clusters, icc) == pytest.approx((clustered / plain) ** 2, rel=0.12)


@pytest.mark.parametrize("clusters", [["a"] * 4, ["a", "b", "c", "d"]])
def test_one_cluster_or_none_says_nothing(clusters):
    assert intraclass_correlation([0.0, 1.0, 0.0, 1.0], clusters) == 0.0


def test_clusters_that_alternate_count_as_independent():
    assert intraclass_correlation([0.0, 1.0, 0.0, 1.0], ["a", "a", "b", "b"]) == 0.0
    assert intraclass_correlation([0.0, 0.0], ["a", "a"]) == 0.0
    assert intraclass_correlation([0.5] * 6, list("aabbcc")) == 0.0


def test_a_given_correlation():
    assert spread_of_one(0.25, 0.5).of_items() == 0.25
    assert spread_of_one(0.25, 0.0).of_items() == 0.5


def test_too_few_items():
    with pytest.raises(ConfigError, match="items that both evaluations have scored; got 1; allowed: at least 2"):
        spread_of_pairs([1.0], [0.0])
    assert variance([3.0]) == 0.0


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=80), st.floats(-0.5, 0.5))
def test_a_set_has_the_mean_that_was_asked_for_or_is_none(sizes, mean):
    found = set_with_mean(sizes, mean)
    if found is None:
        assert abs(mean) * len(sizes) > sum(sizes) - max(sizes)
    else:
        assert sorted(map(abs, found)) == sorted(sizes)
        assert abs(sum(found) / len(found) - mean) <= max(sizes) / len(sizes) + 1e-9


def test_the_simulation_is_seeded_and_of_the_set():
    items = [1.0] * 20 + [-1.0] * 20 + [0.0] * 360
    found = items_until_decided(items, "not_worse", 0.05)
    assert found == items_until_decided(items, "not_worse", 0.05)
    assert 60 < found < 250
    assert items_until_decided(items, "not_worse", 0.5) < 20
    assert items_until_decided([4 * d for d in items], "not_worse", 0.2, width=4.0) == found
    assert items_until_decided([0.0], "better", 0.0) == 1


@pytest.mark.data
def test_real_samples(data):
    """Qwen2.5-7B before and after GRPO, 8 and 64 samples of 200 GSM8K problems: what NumPy makes of it."""
    scores = []
    for name, k in (("gsm8k_qwen7b_base_k8", 8), ("gsm8k_qwen7b_grpo_k64", 64)):
        counts = [row["n_correct"] for row in json.loads((data / f"samples/{name}.json").read_text())["results"]]
        scores.append([[1.0] * count + [0.0] * (k - count) for count in counts])
    means = [[sum(item) / len(item) for item in model] for model in scores]
    found = spread_of_pairs(means[1], means[0], list(zip(scores[1], scores[0], strict=True)))
    noise = [np.mean([np.var(item, ddof=1) for item in model]) for model in scores]
    total = np.var(np.subtract(*means), ddof=1)
    assert found.total == pytest.approx(total)
    assert found.sampling == pytest.approx(sum(noise))
    assert found.between == pytest.approx(total - noise[0] / 8 - noise[1] / 64)
    assert found.correlation == pytest.approx(np.corrcoef(*means)[0, 1])
    assert [items_needed(found.of_items(k), 0.03) for k in (1, 4, 8)] == [972, 258, 139]
