"""Models whose parameters lie in shards on the ranks (FSDP2): all ranks go through each forward pass together.

A pass gathers one part of the model after the other, by collective calls that every rank has to join. Evaluations are
uneven: ranks have fewer or shorter texts. So ranks agree before each pass whether anybody still has work. Who has none
joins with the smallest pass there is, and drops what comes out of it:

rank 0    text   text   text   text
rank 1    text   text   idle   idle     here nobody has work: all go on
rank 2    idle   idle   idle   idle

No rank ever holds more of the weights than in a forward pass of training. A pass that breaks off in the middle of one
rank (out of memory, say) is gathered to its end there, so that the others get through theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from midflight.environ import process_group
from midflight.errors import ConfigError


def is_sharded(model: Any) -> bool:
    """Whether a model's parameters lie in shards on the ranks."""
    return bool(_parts(model))


def put_in_shards(modules: Sequence[Any]) -> None:
    """Frees what is whole of models in shards: a pass without a backward leaves the parameters of the root so."""
    for module in modules:
        for part in _parts(module):
            part.reshard()


@contextmanager
def put_together(modules: Sequence[Any]) -> Iterator[None]:
    """For reading whole weights of models in shards, which all ranks join; nothing where no model is.

    Raises:
        CollectiveError: If a rank died or did not come within the process group's time limit.
    """
    if not any(map(is_sharded, modules)):
        yield
        return
    from midflight.distributed._peers import spoken

    put_in_shards(modules)
    with spoken("putting weights together"):
        yield


@contextmanager
def in_step(modules: Sequence[Any], idle: Callable[[], None]) -> Iterator[None]:
    """Has all ranks go through each forward pass of a model in shards together; nothing where no model is.

    Every rank has to enter it, also one with nothing to do. Leaving it waits for the others: until nobody has work,
    this rank joins their passes.

    Args:
        modules: Torch modules; one of them at most is in shards.
        idle: The smallest forward pass of it.

    Raises:
        ConfigError: If several are in shards.
        CollectiveError: If a rank died or did not come within the process group's time limit.
    """
    sharded = [module for module in modules if is_sharded(module)]
    if len(sharded) > 1:
        raise ConfigError("several models in shards in one engine", got=len(sharded), allowed="one")
    if not sharded or process_group() is None:
        yield
        return
    with ExitStack() as stack:
        march = _March(sharded[0], idle, stack)
        try:
            yield
        finally:
            march.join()


class _March:
    """The passes of one evaluation on one rank.

    Args:
        model: The model in shards.
        idle: Its smallest pass.
        stack: Puts everything back when it is left.
    """

    def __init__(self, model: Any, idle: Callable[[], None], stack: ExitStack) -> None:
        from midflight.distributed._peers import Peers

        self._peers, self._idle = Peers(), idle
        self._parts = _parts(model)
        self._order: list[Any] = []  # parts as a pass gathers them
        self._num_gathered = 0  # of them, in the pass that runs
        self._due = False  # whether the part that is entered has to be gathered
        self._running = False  # whether a pass has begun and not ended
        self._joining = True  # whether it is not this rank's own
        # adapters (PEFT) score through themselves, and generate past themselves: what both go through is inside
        entry = model.get_base_model() if hasattr(model, "get_base_model") else model
        around = [part for part in self._parts if any(inner is entry for inner in part.modules())]
        _set_up(self._parts)
        stack.callback(self._put_back, _traces(self._parts))
        for part in around:  # whole all the time, as torch has them between forward and backward
            part.unshard()
            for group in _groups(part):
                group.reshard = _stay
                stack.callback(delattr, group, "reshard")
        self._watch(entry, stack)
        self._idle()  # a rehearsal that all join: it tells in which order parts are gathered
        self._order = [part for part in self._order if not _is_whole(part)]  # some stay whole, if training says so
        self._joining = False

    def _watch(self, entry: Any, stack: ExitStack) -> None:
        handles = [
            entry.register_forward_pre_hook(self._begin, prepend=True),
            entry.register_forward_hook(self._end),
        ]
        for part in self._parts:  # torch's own hook stands between these two
            handles.append(part.register_forward_pre_hook(self._enter, prepend=True))
            handles.append(part.register_forward_pre_hook(self._entered))
        for handle in handles:
            stack.callback(handle.remove)

    def join(self) -> None:
        """Joins the others' passes until nobody has work."""
        if self._running:
            self._mend()
        self._joining = True
        while self._anybody(works=False):
            self._num_gathered = 0
            try:
                self._idle()
            except Exception:  # what comes out of it is dropped; where it cannot be mended either, that raises
                self._mend()

    def _begin(self, *_: Any) -> None:
        if self._running:  # the pass before broke off, and the engine tries another: half the batch, say
            self._mend()
        if not self._joining:
            self._anybody(works=True)
        self._running, self._num_gathered = True, 0

    def _end(self, *_: Any) -> None:
        self._running = False

    def _enter(self, part: Any, *_: Any) -> None:
        self._due = not _is_whole(part)

    def _entered(self, part: Any, *_: Any) -> None:
        if self._due and self._num_gathered == len(self._order):
            self._order.append(part)
        self._num_gathered += self._due

    def _anybody(self, works: bool) -> bool:
        """Whether any rank has work. One that has does not wait for the answer: it knows."""
        import torch

        from midflight.distributed._peers import spoken

        flag = torch.tensor([float(works)], device=self._peers.device)
        with spoken("the agreement before a forward pass"):
            self._peers.dist.all_reduce(flag, op=self._peers.dist.ReduceOp.MAX)
            return works or bool(flag.item())

    def _mend(self) -> None:
        """Gathers what a pass that broke off has not gathered, so that the other ranks get through theirs."""
        from midflight.distributed._peers import spoken

        for part in self._parts:
            _forget_pass(part)
        with spoken("a forward pass that broke off on this rank"):
            for part in self._order[self._num_gathered :]:
                part.unshard()
                _leave(part)
        for part in self._order:
            _leave(part)
        self._running = False

    def _put_back(self, traces: list[tuple[list[Any], int]]) -> None:
        for part in self._parts:
            _forget_pass(part)
            part.reshard()
        for trace, length in traces:
            del trace[length:]


# -- what torch keeps to itself --------------------------------------------------------------------------------------


def _parts(model: Any) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "_get_fsdp_state")]


def _set_up(parts: Sequence[Any]) -> None:
    """Has torch set up what it does at a first pass: what it would write then is written before it is remembered."""
    inside = {id(inner) for part in parts for inner in part.modules() if inner is not part}
    for part in parts:
        if id(part) not in inside:
            part._get_fsdp_state()._lazy_init()


def _groups(part: Any) -> list[Any]:
    """The parameters that are gathered together; a part had one group at most before they became a list."""
    state = part._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    return list(groups) if groups is not None else [g for g in [state._fsdp_param_group] if g is not None]


def _is_whole(part: Any) -> bool:
    return all(group.is_unsharded for group in _groups(part))


def _stay() -> None:
    """In the place of a `reshard`: leaves a part whole."""


def _leave(part: Any) -> None:
    """Puts a part into shards if a forward pass would."""
    for group in _groups(part):
        idle = group._training_state
        group._training_state = type(idle).FORWARD
        group.reshard()
        group._training_state = idle


def _forget_pass(part: Any) -> None:
    """Has torch forget a pass that broke off."""
    state = part._get_fsdp_state()
    state._state_ctx.iter_forward_root = None
    state._modules_to_run_forward.clear()
    for thing in (state, *_groups(part)):
        thing._training_state = type(thing._training_state).IDLE


def _traces(parts: Sequence[Any]) -> list[tuple[list[Any], int]]:
    """Where passes leave traces, by which the next backward would gather ahead; and how long they are now."""
    traces = [part._get_fsdp_state()._comm_ctx.post_forward_order for part in parts]
    traces += [group._post_forward_indices for part in parts for group in _groups(part)]
    return [(trace, len(trace)) for trace in {id(trace): trace for trace in traces}.values()]
