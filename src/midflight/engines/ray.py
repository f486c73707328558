"""Copies of an engine on the actors of a Ray cluster: requests go to whoever is free, actors may come and go."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from midflight.engines.base import BaseEngine
from midflight.errors import ConfigError, EngineDiedError, missing_extra
from midflight.records import Output, Request, RequestKind
from midflight.snapshot import Layout, Replica, Skeleton

try:
    import ray
except ImportError as error:
    raise missing_extra("the ray engine", "ray", error) from None

PIECES = 8
"""Pieces of work for each actor: enough that the last ones end nearly together, and that a lost one costs little."""
IN_FLIGHT = 2
"""Pieces that an actor has at once: the next one lies there when it has done one."""
LOSSES = 3
"""Actors that may be lost for each worker in one evaluation."""


class Ray(BaseEngine):
    """Shares requests out to copies of an engine on a Ray cluster.

    The copies get the engine's weights through Ray's object store, anew when they have changed. A lost actor is
    replaced, and what it had not answered is asked again.

    Args:
        engine: What is copied: an `HF` with the model in training, or any engine that can be pickled.
        workers: Actors.
        local_eval_nodes: Nodes that the actors share evenly, so that the others stay free for training; None = wherever
            there is room.
        address: Address of a running cluster, e.g. ``ray://head:10001``; None = the one that this process belongs to or
            finds, else a new one on this machine.
        num_cpus: Processors of each actor.
        num_gpus: Accelerators of each actor.
        resources: What else each actor asks of the cluster.
        device: Where actors put the weights; None = on an accelerator if they have one, else where they are here.
        start_s: Seconds to wait for the nodes and the first actor.

    Raises:
        ConfigError: If there is no worker, there are more nodes than workers, or the cluster cannot be reached.
    """

    name: ClassVar[str] = "ray"

    def __init__(
        self,
        engine: BaseEngine,
        *,
        workers: int = 2,
        local_eval_nodes: int | None = None,
        address: str | None = None,
        num_cpus: float = 1,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        device: str | None = None,
        start_s: float = 300.0,
    ) -> None:
        if workers < 1:
            raise ConfigError("workers", got=workers, allowed="a number from 1")
        if local_eval_nodes is not None and not 1 <= local_eval_nodes <= workers:
            raise ConfigError("local_eval_nodes", got=local_eval_nodes, allowed=f"1 to {workers}, one worker a node")
        self.local_eval_nodes = local_eval_nodes
        self.engine, self.workers, self.address, self.start_s = engine, workers, address, start_s
        self.options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": num_gpus, "resources": dict(resources or {})}
        self.device = device or ("cuda" if num_gpus else None)
        self.chat, self.provides = engine.chat, engine.provides
        self._actors: list[Any] = []  # that have started
        self._starting: dict[Any, Any] = {}  # the answer that tells of it: an actor that has not
        self._nodes: Any = None  # the placement group of `local_eval_nodes`
        self._shared: tuple[str, Any, Any] | None = None  # version of the weights; engine and weights in Ray's store
        self._seconds: dict[str, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        own: dict[str, Any] = {"_actors": [], "_starting": {}, "_nodes": None, "_shared": None, "_seconds": {}}
        return {**vars(self), **own}  # another process has actors of its own

    # -- what it is: what the engine is ------------------------------------------------------------------------------

    @property
    def capabilities(self) -> frozenset[RequestKind]:
        """What the engine can be asked."""
        return self.engine.capabilities

    def fingerprint(self) -> dict[str, Any]:
        """That of the engine: who answers does not change the numbers."""
        return self.engine.fingerprint()

    def weights(self) -> str:
        """Version of the engine's weights."""
        return self.engine.weights()

    def modules(self) -> list[Any]:
        """The engine's torch modules."""
        return self.engine.modules()

    def timings(self) -> dict[str, float]:
        """Seconds that each actor was at work since the last call."""
        found, self._seconds = dict(sorted(self._seconds.items())), {}
        return found

    def close(self) -> None:
        """Ends the actors."""
        for actor in (*self._actors, *self._starting.values()):
            ray.kill(actor)
        if self._nodes is not None:
            ray.util.remove_placement_group(self._nodes)
        self._actors, self._starting, self._nodes, self._shared = [], {}, None, None

    # -- what it does ------------------------------------------------------------------------------------------------

    def run(self, requests: Sequence[Request]) -> Iterator[Output]:
        """Answers requests, dearest first, wherever there is room.

        Raises:
            EngineDiedError: If no actor starts in time, or too many are lost.
        """
        self._connect()
        self._share()
        waiting = deque(_pieces(requests, self.workers * PIECES))
        left = self.workers * LOSSES
        busy: dict[Any, tuple[Any, list[Request]]] = {}  # a result to come: who works on what
        while waiting or busy:
            self._hire(min(self.workers, len(waiting) + len(busy)))
            for actor in self._actors:
                while waiting and sum(who is actor for who, _ in busy.values()) < IN_FLIGHT:
                    piece = waiting.popleft()
                    busy[actor.answer.remote(piece)] = actor, piece
            done = self._await([*busy, *self._starting], None if busy else self.start_s)
            if done in self._starting:
                self._actors.append(self._starting.pop(done))
                continue
            actor, piece = busy.pop(done)
            try:
                outputs, seconds = ray.get(done)
            except (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError) as error:
                left -= 1
                if left < 0:
                    raise EngineDiedError(f"too many actors of the Ray cluster were lost: {_line(error)}") from error
                waiting.appendleft(piece)
                self._actors = [other for other in self._actors if other is not actor]
                continue
            except ray.exceptions.RayTaskError as error:
                reason = f"{type(error.cause).__name__}: {error.cause}" if error.cause is not None else _line(error)
                outputs, seconds = [Output(request.id, error=reason) for request in piece], 0.0
            name = f"actor {self._actors.index(actor)}" if actor in self._actors else "lost actors"
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds
            yield from outputs

    def _connect(self) -> None:
        if ray.is_initialized():
            return
        try:
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except (ConnectionError, ValueError) as error:
            raise ConfigError(f"the Ray cluster at {self.address!r} cannot be reached: {_line(error)}") from error

    def _share(self) -> None:
        """Puts engine and weights into Ray's store, if they have changed since the last time."""
        import numpy as np

        version = self.engine.weights()
        if self._shared is not None and self._shared[0] == version and version:
            return
        skeleton = Skeleton(self.engine, self.engine.modules())
        memory = np.empty(skeleton.layout.size, np.uint8)
        for view, tensor in zip(skeleton.layout.views(memory), skeleton.tensors(), strict=True):
            view.copy_(tensor.detach())
        before = self._shared
        content = ray.put((skeleton.content, skeleton.layout))
        self._shared = (version, content, ray.put(memory))
        if before is not None:
            for actor in (*self._actors, *self._starting.values()):
                actor.load.remote(content, self._shared[2])

    def _hire(self, count: int) -> None:
        """Starts actors until there are so many. Ray places them as there is room."""
        assert self._shared is not None
        while len(self._actors) + len(self._starting) < count:
            options = {**self.options, "scheduling_strategy": self._placement()}
            actor = ray.remote(_Actor).options(**options).remote(self._shared[1], self._shared[2], self.device)
            self._starting[actor.ready.remote()] = actor

    def _placement(self) -> Any:
        """Where actors go: anywhere, or to nodes of which each has room for its share of them."""
        if self.local_eval_nodes is None:
            return "SPREAD"
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        if self._nodes is None:
            share = -(-self.workers // self.local_eval_nodes)
            one = {"CPU": self.options["num_cpus"], "GPU": self.options["num_gpus"], **self.options["resources"]}
            room = {name: share * amount for name, amount in one.items() if amount}
            self._nodes = ray.util.placement_group([room] * self.local_eval_nodes, strategy="STRICT_SPREAD")
            self._await([self._nodes.ready()], self.start_s)
        return PlacementGroupSchedulingStrategy(self._nodes)

    def _await(self, coming: list[Any], timeout_s: float | None) -> Any:
        """The first of some answers that has come.

        Raises:
            EngineDiedError: If none comes in time.
        """
        done, _ = ray.wait(coming, num_returns=1, timeout=timeout_s)
        if not done:
            nodes = "" if self.local_eval_nodes is None else f", on {self.local_eval_nodes} nodes"
            raise EngineDiedError(
                f"no actor of the Ray cluster started within {timeout_s:g} s",
                got=f"{self.workers} x { {key: value for key, value in self.options.items() if value} }{nodes}",
                allowed=f"what the cluster has: {ray.cluster_resources()}",
            )
        return done[0]


class _Actor:
    """A copy of the engine."""

    def __init__(self, content: tuple[bytes, Layout], memory: Any, device: str | None) -> None:
        self.device = device
        self.load(content, memory)

    def load(self, content: tuple[bytes, Layout], memory: Any) -> None:
        """Takes an engine and its weights."""
        skeleton, layout = content
        self.replica = Replica(skeleton, layout, self.device)
        self.engine = self.replica.show(layout.views(memory.copy()) if layout.specs else [])

    def ready(self) -> None:
        """Answers as soon as the actor runs."""

    def answer(self, requests: list[Request]) -> tuple[list[Output], float]:
        """Outputs, and the seconds that they took."""
        began = time.monotonic()
        return list(self.engine.run(requests)), time.monotonic() - began


def _pieces(requests: Sequence[Request], count: int) -> list[list[Request]]:
    """The requests in so many pieces of similar length, the longest first."""
    ordered = sorted(requests, key=lambda r: (-len(str(r.prompt)) - len(r.continuation), r.id))
    size = max(1, -(-len(ordered) // count))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
