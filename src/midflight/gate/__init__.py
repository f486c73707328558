"""Stage 9, ship?: takes a policy and the evidence of two sets of weights, gives a verdict; goes to show and to CI.

policy ──► weigh ──► judge ──► Verdict ──► verdict.json, junit.xml, summary.md, exit code
a TOML     a rule     all of                files
"""

from midflight.gate.decide import decide
from midflight.gate.judge import judge
from midflight.gate.policy import Policy, Rule, read_policy

__all__ = ["Policy", "Rule", "decide", "judge", "read_policy"]
