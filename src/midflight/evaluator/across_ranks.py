"""One evaluation over all ranks of a job: each answers a share of the requests, rank 0 makes the report.

Rank 0 evaluates as ever, with an engine that shares out what it is asked. The other ranks serve: they wait for letters,
answer, and go back to training when rank 0 says so, or when it does not say anything any more.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from midflight.distributed.mail import Mail
from midflight.distributed.shard import shard_by_cost
from midflight.distributed.sharded_model import in_step, is_sharded, put_together
from midflight.engines.base import BaseEngine
from midflight.errors import EngineError, EvaluationError, LostRankError
from midflight.records import Output, Request, RequestKind, Sampling

LIMIT_S = 3600.0
"""Seconds that a rank may take for its share where no limit is set."""
GRACE_S = 30.0
"""Seconds beyond the limit that ranks give each other on each level."""


class AcrossRanks(BaseEngine):
    """An engine whose answers come from all ranks of the job.

    Args:
        engine: The engine of this rank.
        mail: The way to the other ranks.
        limit_s: Seconds that a rank may take for its share; None = an hour.
    """

    def __init__(self, engine: BaseEngine, mail: Mail, limit_s: float | None) -> None:
        self.engine, self.mail, self.limit_s = engine, mail, LIMIT_S if limit_s is None else limit_s
        self._sent = [0] * mail.size  # letters to each rank
        self._got = 0  # letters to this rank
        self._seconds: dict[int, float] = {}

    # -- what it is: what the rank's engine is -----------------------------------------------------------------------

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the rank's engine."""
        return self.engine.name

    @property
    def chat(self) -> bool:  # type: ignore[override]
        """Whether the rank's engine takes messages."""
        return self.engine.chat

    @property
    def provides(self) -> frozenset[str]:  # type: ignore[override]
        """What the rank's engine provides."""
        return self.engine.provides

    @property
    def capabilities(self) -> frozenset[RequestKind]:
        """What the rank's engine can be asked."""
        return self.engine.capabilities

    def fingerprint(self) -> dict[str, Any]:
        """That of the rank's engine: the layout is no part of it, since it does not change the numbers."""
        return self.engine.fingerprint()

    def weights(self) -> str:
        """Version of the weights; the same as if they were not in shards."""
        if any(map(is_sharded, self.engine.modules())):
            for rank in range(1, self.mail.size):
                self._send(rank, {"weigh": True})
        return self._weigh()

    def _weigh(self) -> str:
        """Joined by all ranks where the model is in shards."""
        with put_together(self.engine.modules()):
            return self.engine.weights()

    def modules(self) -> list[Any]:
        """The rank's torch modules."""
        return self.engine.modules()

    def timings(self) -> dict[str, float]:
        """Seconds that each rank took for its shares since the last call."""
        found = {f"rank {rank}": seconds for rank, seconds in sorted(self._seconds.items())}
        self._seconds = {}
        return found

    # -- rank 0 ------------------------------------------------------------------------------------------------------

    def run(self, requests: Sequence[Request]) -> Iterator[Output]:
        """Shares the requests out, answers its own share, and collects the others'. One that is lost is an error."""
        by_id = {request.id: request for request in requests}
        shares = shard_by_cost({request.id: _cost(request) for request in requests}, self.mail.size)
        number = self._sent[0] = self._sent[0] + 1
        for rank, share in enumerate(shares[1:], start=1):
            self._send(rank, {"requests": [dataclasses.asdict(by_id[key]) for key in share], "number": number})
        ends = time.monotonic() + self.limit_s
        letters = {0: self._answer([by_id[key] for key in shares[0]])}
        for leader in sorted(set(self.mail.leaders)):
            members = [rank for rank, its in enumerate(self.mail.leaders) if its == leader and rank]
            letters |= self._collect(leader, members, number, ends)
        reasons = {rank: letter["reason"] for rank, letter in letters.items() if letter["reason"]}
        if reasons and not any(letter["outputs"] for letter in letters.values()):
            raise EngineError("no rank could answer", got=reasons)
        for rank, letter in sorted(letters.items()):
            self._add_seconds(rank, letter["seconds"])
            answered = [Output(**output) for output in letter["outputs"]]
            yield from answered
            left = set(shares[rank]) - {output.request_id for output in answered}
            if rank in reasons:
                yield from (Output(key, error=f"rank {rank}: {reasons[rank]}") for key in sorted(left))

    def _collect(self, leader: int, members: Sequence[int], number: int, ends: float) -> dict[int, dict[str, Any]]:
        """Answers of the ranks of a group, from its leader; if it does not write, from themselves."""
        if leader != 0 and members:
            try:
                letter = self.mail.receive(leader, f"{number}/group/{leader}", ends + 2 * GRACE_S)
                return {int(rank): found for rank, found in letter.items()}
            except LostRankError:
                ends = 0.0  # what is there is taken, nothing is waited for any more
        return gather(self.mail, members, number, ends + GRACE_S if ends else 0.0)

    def _send(self, rank: int, letter: dict[str, Any]) -> None:
        try:
            self.mail.send(rank, f"to/{rank}/{self._sent[rank]}", letter)
        except LostRankError:
            return  # its outputs will be missing, which is where it is told of
        finally:
            self._sent[rank] += rank != 0

    def _add_seconds(self, rank: int, seconds: float) -> None:
        self._seconds[rank] = self._seconds.get(rank, 0.0) + seconds

    def dismiss(self, failures: Mapping[str, str]) -> None:
        """Sends the other ranks back to training, with what failed."""
        for rank in range(1, self.mail.size):
            self._send(rank, {"failures": dict(failures)})

    # -- the other ranks ---------------------------------------------------------------------------------------------

    def serve(self) -> dict[str, str]:
        """Answers for rank 0 until it sends this rank back to training.

        Returns:
            Task to reason of what failed there.

        Raises:
            EvaluationError: If rank 0 does not write any more.
        """
        while True:
            try:
                letter = self.mail.receive(
                    self.mail.rank, f"to/{self.mail.rank}/{self._got}", time.monotonic() + self.limit_s + LIMIT_S
                )
            except LostRankError as error:
                raise EvaluationError(f"rank 0 left this evaluation: {error}") from error
            self._got += 1
            if "failures" in letter:
                return {str(name): str(reason) for name, reason in letter["failures"].items()}
            if "weigh" in letter:
                self._weigh()
                continue
            ends = time.monotonic() + self.limit_s
            answer = self._answer([_request(fields) for fields in letter["requests"]])
            self._post(letter["number"], answer, ends)

    def _post(self, number: int, answer: dict[str, Any], ends: float) -> None:
        """Sends an answer to the leader of the group, who puts all of them into one letter."""
        mail = self.mail
        leader = mail.leaders[mail.rank]
        if leader == mail.rank:
            members = [rank for rank in mail.members if rank != mail.rank]
            found = {**gather(mail, members, number, ends + GRACE_S), mail.rank: answer}
            mail.send(mail.rank, f"{number}/group/{leader}", {str(rank): each for rank, each in found.items()})
        else:
            mail.send(leader, f"{number}/from/{mail.rank}", answer)

    # -- every rank --------------------------------------------------------------------------------------------------

    def _answer(self, requests: Sequence[Request]) -> dict[str, Any]:
        """What this rank answers in time, and why not all; where the model is in shards, in step with the others."""
        began = done = time.monotonic()
        outputs: list[Output] = []
        reason = ""
        try:
            with in_step(self.engine.modules(), self.engine.idle):
                try:
                    for output in self.engine.run(requests) if requests else ():
                        outputs.append(output)
                        if time.monotonic() - began >= self.limit_s:
                            break
                finally:
                    done = time.monotonic()  # from here on it works for others
        except Exception as error:  # whoever fails costs his own share, and rank 0 says so
            reason = f"{type(error).__name__}: {error}"
        if not reason and len(outputs) < len(requests):
            reason = f"not answered within {self.limit_s:g} s"
        return {"outputs": [dataclasses.asdict(each) for each in outputs], "reason": reason, "seconds": done - began}


def gather(mail: Mail, members: Sequence[int], number: int, ends: float) -> dict[int, dict[str, Any]]:
    """The answers of some ranks of one group; that of a rank which does not write in time says so."""
    found = {}
    for rank in members:
        try:
            found[rank] = mail.receive(rank, f"{number}/from/{rank}", ends)
        except LostRankError as error:
            found[rank] = {"outputs": [], "reason": f"it did not answer in time ({error})", "seconds": 0.0}
    return found


def _cost(request: Request) -> float:
    """Tokens to expect, at four characters a token; a new one costs a pass of its own, one that is read does not."""
    said = request.prompt if isinstance(request.prompt, str) else "".join(turn["content"] for turn in request.prompt)
    new = request.sampling.max_tokens if request.kind == "generate" and request.sampling else 0
    return 1 + (len(said) + len(request.continuation)) / 4 + 4 * new


def _request(fields: Mapping[str, Any]) -> Request:
    """A request from a letter."""
    prompt, sampling = fields["prompt"], fields["sampling"]
    changes: dict[str, Any] = {"prompt": prompt if isinstance(prompt, str) else tuple(prompt)}
    if sampling is not None:
        changes["sampling"] = Sampling(**{**sampling, "stop": tuple(sampling["stop"])})
    return Request(**{**fields, **changes})
