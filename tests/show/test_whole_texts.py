"""What is evidence is wrapped where there is no room, and never cut."""

from __future__ import annotations

import io

from rich.console import Console

from midflight.records import AuditEvent, Decision, Subject, Verdict
from midflight.show.audit import audit_tables
from midflight.show.verdict import verdict_table

LONG = " ".join(f"word{i}" for i in range(400))
DIGEST = "0123456789abcdef" * 4


def printed(width, *tables):
    console = Console(file=io.StringIO(), width=width)
    for table in tables:
        console.print(table)
    return console.file.getvalue()


def test_the_audit_trail_shows_all_of_its_evidence():
    event = AuditEvent(
        0.0, "me", {}, "e", "flow", "p", f"/ckpt/{'deep/' * 60}end", "f" * 16, "s", "failed",
        {"output": LONG, "weights": DIGEST},
    )  # fmt: skip
    found = printed(200, *audit_tables([event]))
    assert "…" not in found
    for word in LONG.split():
        assert word in found
    whole = "".join(found.split())
    assert DIGEST in "".join(c for c in whole if c.isalnum())
    assert f"{'deep/' * 60}end" in whole


def test_a_verdict_shows_all_of_its_reasons():
    decisions = [Decision("rule", "blocking", "fail", "asked", LONG)]
    policy = ("fail", "policy", "digest", Subject("new"), Subject("old"))
    verdict = Verdict("id", *policy, decisions, ["why"], alpha=0.05, look=1, created_at=0.0, warnings=[LONG])
    found = printed(120, verdict_table(verdict))
    assert "…" not in found
    assert [found.split().count(word) for word in LONG.split()] == [2] * 400
