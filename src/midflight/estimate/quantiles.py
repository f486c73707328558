"""Normal, Student's t and binomial distribution, without SciPy: the core install stays light."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

_EPS = 3e-16
_TINY = 1e-300


def normal_quantile(p: float) -> float:
    """Quantile of the standard normal distribution.

    >>> round(normal_quantile(0.975), 6)
    1.959964
    """
    return NormalDist().inv_cdf(p)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t distribution, by Newton's method on its distribution function.

    Args:
        p: Probability in (0, 1).
        df: Degrees of freedom, above 0; Welch and Satterthwaite give fractions.

    >>> round(t_quantile(0.975, 9), 6)
    2.262157
    """
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, df)
    if df > 10_000:  # the expansion around the normal quantile is exact to 1e-12 here (Abramowitz & Stegun 26.7.5)
        z = normal_quantile(p)
        return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < p:
        low, high = high, high * 2
    x = (low + high) / 2
    for _ in range(200):
        error = t_cdf(x, df) - p
        low, high = (x, high) if error < 0 else (low, x)
        slope = math.exp(_log_density(x, df))
        step = x - error / slope if slope > 0 else x
        following = step if low < step < high else (low + high) / 2  # Newton's step, or bisection where it leaves
        if abs(following - x) <= 1e-15 * max(1.0, abs(x)):
            return following
        x = following
    return x


def t_interval(value: float, stderr: float, df: float, level: float) -> tuple[float, float]:
    """Student's interval around an estimate.

    >>> tuple(round(end, 4) for end in t_interval(0.6, 0.1, 2, 0.95))
    (0.1697, 1.0303)
    """
    half = t_quantile((1 + level) / 2, df) * stderr
    return value - half, value + half


def t_cdf(x: float, df: float) -> float:
    """Distribution function of Student's t, through the regularised incomplete beta function."""
    tail = 0.5 * _incomplete_beta(df / 2, 0.5, df / (df + x * x))
    return 1 - tail if x > 0 else tail


def normal_tail(z: float) -> float:
    """Probability that a standard normal variable is above z, exact far out too.

    >>> round(normal_tail(1.959963984540054), 12)
    0.025
    """
    return 0.5 * math.erfc(z / math.sqrt(2))


def binomial_tail(k: int, n: int, p: float) -> float:
    """Probability of k successes or more in n trials of probability p: I_p(k, n − k + 1).

    >>> round(binomial_tail(8, 10, 0.5), 9)  # 56 / 1024
    0.0546875
    """
    return 1.0 if k <= 0 else 0.0 if k > n else _incomplete_beta(k, n - k + 1, p)


def root(function: Callable[[float], float], inside: float, outside: float) -> float:
    """Where a function that is at most 0 `inside` and rises towards `outside` crosses 0, to 1e-12; else `outside`."""
    if function(outside) < 0:
        return outside
    while abs(outside - inside) > 1e-12:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if function(middle) < 0 else (inside, middle)
    return (inside + outside) / 2


def _log_density(x: float, df: float) -> float:
    scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    return scale - (df + 1) / 2 * math.log1p(x * x / df)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) by its continued fraction, Lentz's method (Press et al., Numerical Recipes, section 6.4)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < _EPS:
            break
    return front * fraction / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
