"""Sends the verdict to a URL as JSON (POST), in Slack's form with `text`; tries again where that may help."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from midflight.credentials import resolve, variables_in
from midflight.errors import StepError
from midflight.gate.workflow.steps.base import Note, Step, StepContext
from midflight.posting import checked_url, escaped, post_json, retry_after
from midflight.schema import to_json

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_NAMES = ("workflow", "project", "run", "checkpoint", "weights", "outcome", "policy", "reasons", "execution")


class WebhookStep(Step):
    """A POST request.

    Attributes:
        url: Where to; https, or this machine. ``${env:NAME}`` is replaced.
        headers: Headers; secrets by name: ``Authorization = "Bearer ${env:TOKEN}"``.
        text: Sends ``{"text": …}`` as Slack and Mattermost take it, instead of everything. ``${outcome}``,
            ``${policy}``, ``${reasons}``, ``${checkpoint}``, ``${weights}``, ``${run}``, ``${project}``,
            ``${workflow}`` and ``${execution}`` are replaced.
        timeout_s: Seconds that one try may take, from the look-up of the name to the last byte.
        retries: Tries after the first; only connections that break, 408, 429 and 5xx are tried again.
    """

    kind: Literal["webhook"] = "webhook"
    url: str
    headers: dict[str, str] = {}
    text: str = ""
    timeout_s: float = Field(default=30.0, gt=0, le=3_600)
    retries: int = Field(default=4, ge=0, le=100)

    @field_validator("url")
    @classmethod
    def _safe(cls, url: str) -> str:
        if not variables_in(url):
            checked_url(url, url)
        return url

    @field_validator("text")
    @classmethod
    def _known(cls, text: str) -> str:
        for name in _PLACEHOLDER.findall(text):
            if name not in _NAMES:
                raise ValueError(f"${{{name}}} is none of {', '.join(_NAMES)}")
        return text

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Sends it; an answer that is not 2xx is a failure."""
        headers = {"Idempotency-Key": context.key, **{name: resolve(value) for name, value in self.headers.items()}}
        status, told, answer = post_json(resolve(self.url), self._body(context), headers, self.timeout_s, self.url)
        if 200 <= status < 300:
            return {"status": status, "output": answer}
        error = StepError(f"{self.url}: HTTP {status}" + (": " + _REDIRECT if 300 <= status < 400 else ""))
        error.permanent = not (status in (408, 429) or status >= 500)
        error.wait_s = retry_after(told.get("Retry-After", ""), time.time())
        error.output = answer
        raise error

    def _body(self, context: StepContext) -> str:
        verdict = context.verdict
        told = {
            "workflow": context.workflow,
            "project": context.project,
            "run": context.run,
            "checkpoint": str(context.checkpoint or ""),
            "weights": context.weights,
            "outcome": verdict.outcome if verdict else "",
            "policy": verdict.policy if verdict else "",
            "reasons": "; ".join(verdict.reasons) if verdict else "",
            "execution": context.execution,
        }
        if self.text:
            return to_json({"text": _PLACEHOLDER.sub(lambda found: escaped(told[found[1]]), self.text)})
        return to_json({**told, "step": context.step, "verdict": verdict and _plain(verdict)})


_REDIRECT = "a redirect, which is not followed: name the URL that it leads to"


def _plain(verdict: Any) -> Any:
    from midflight.schema import verdict_to_json

    return json.loads(verdict_to_json(verdict))
