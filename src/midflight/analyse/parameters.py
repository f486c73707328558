"""Configurations as flat parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration with dotted keys; lists are kept as JSON text.

    >>> flat({"optim": {"lr": 0.1, "betas": [0.9, 0.95]}, "seed": 0})
    {'optim.lr': 0.1, 'optim.betas': '[0.9, 0.95]', 'seed': 0}
    """
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(flat(value, f"{name}."))
        else:
            found[name] = value if isinstance(value, str | int | float | None) else json.dumps(value, default=str)
    return found
