"""Log-probabilities of a prompt, read from an echoed completion: trusted only where the echo proves to be one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

PROBE = ("1 2 3 4 5 6 7 8", " 9 10 11 12 13 14 15 16 17 18 19 20")
"""Context and continuation that every model can foresee."""


class EchoError(ValueError):
    """An answer that is no echo of the prompt with log-probabilities."""


@dataclass(frozen=True, slots=True)
class EchoScore:
    """Log-probability of a continuation, in nats; `unscored_bytes` at its beginning have none."""

    logprob: float
    greedy: bool
    num_tokens: int
    num_prompt_tokens: int
    unscored_bytes: int = 0


def score_echo(answer: Any, context: str, continuation: str) -> EchoScore:
    """The continuation's log-probability in an echoed completion.

    White space between context and continuation belongs to the continuation, as with the hf engine. With an empty
    context the first token has no log-probability, unless the server puts a BOS token before it: it is not counted,
    and its bytes are told.

    Args:
        answer: The server's answer to prompt `context + continuation` with `echo`, `logprobs=1` and `max_tokens=1`.
        context: What the continuation is conditioned on.
        continuation: What is scored.

    Raises:
        EchoError: If the answer is no such echo.
    """
    logprobs = getattr(answer.choices[0], "logprobs", None)
    tokens, values = getattr(logprobs, "tokens", None), getattr(logprobs, "token_logprobs", None)
    if not tokens or not values or len(tokens) != len(values):
        raise EchoError("no log-probabilities in the answer")
    echoed = getattr(answer.choices[0], "text", None) or ""
    starts = _starts(tokens, getattr(logprobs, "text_offset", None), echoed, context + continuation)
    begin, end = len(context.rstrip()), len(context + continuation)
    # a token that reaches over the border of the context belongs to the continuation
    ends = [*starts[1:], starts[-1] + len(tokens[-1])]
    chosen = [i for i in range(len(tokens)) if starts[i] < end and ends[i] > begin]
    unscored = ""
    if not context and chosen and values[chosen[0]] is None:
        unscored = continuation[: ends[chosen[0]]]
        chosen = chosen[1:]
    scored = [values[i] for i in chosen]
    if not scored or any(not isinstance(v, int | float) for v in scored):
        raise EchoError("the continuation has no log-probabilities: the prompt was not echoed")
    return EchoScore(
        math.fsum(scored),
        _greedy(logprobs, chosen),
        len(chosen),
        chosen[0],
        len(unscored.encode("utf-8", "surrogatepass")),
    )


def check_alignment(answer: Any) -> None:
    """Refuses log-probabilities that belong to the token after the one that they stand at.

    llama-cpp-python 0.3.16 shifts them so for models without a BOS token. In a text that a model can foresee, the
    likeliest token at a place is the token that stands there; if it is more often the one behind, all are shifted.

    Args:
        answer: The server's answer to `PROBE`, echoed.

    Raises:
        EchoError: If they are shifted.
    """
    logprobs = answer.choices[0].logprobs
    tokens, top = list(logprobs.tokens), list(getattr(logprobs, "top_logprobs", None) or [])
    likeliest = [max(found, key=found.get) if found else None for found in top]
    in_place = sum(a == b for a, b in zip(likeliest, tokens, strict=False))
    shifted = sum(a == b for a, b in zip(likeliest, tokens[1:], strict=False))
    if shifted > in_place and shifted > len(tokens) // 3:
        raise EchoError("the server's log-probabilities are shifted by one token")


def _starts(tokens: Sequence[str], offsets: Sequence[int] | None, echoed: str, prompt: str) -> list[int]:
    """Offset of each token in the prompt: the server's where it is usable, else counted from the tokens' texts.

    A BOS token that the server put before the prompt has offset 0 and no length.
    """
    if offsets and len(offsets) == len(tokens) and echoed.startswith(prompt) and _rises_from_zero(offsets):
        return list(offsets)
    for skip in (0, 1):
        if "".join(tokens[skip:]).startswith(prompt):
            return [0] * skip + list(accumulate((len(t) for t in tokens[skip:-1]), initial=0))
    raise EchoError("the answer does not begin with the prompt")


def _rises_from_zero(offsets: Sequence[int]) -> bool:
    return offsets[0] == 0 and (offsets[-1] > 0 or len(offsets) == 1) and all(a <= b for a, b in pairwise(offsets))


def _greedy(logprobs: Any, chosen: list[int]) -> bool:
    top = getattr(logprobs, "top_logprobs", None)
    if not top:
        return False
    return all(top[i] and max(top[i].values()) <= logprobs.token_logprobs[i] for i in chosen)
