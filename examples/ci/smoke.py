"""A smoke test of what was just promoted: its weights are whole, and the verdict is about them."""

import json
import os
import sys
from pathlib import Path

verdict = json.load(sys.stdin)
model = Path("models/production")
assert (model / "config.json").is_file(), f"no model at {model}"
print(f"{verdict['policy']}: {verdict['outcome']}; {os.environ['MIDFLIGHT_WEIGHTS'][:16]} is at {model}")
