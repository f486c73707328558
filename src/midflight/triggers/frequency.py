"""Due or not due: by steps, epochs, tokens, seconds of training, or a function of the user's.

Counting triggers are phase-locked: due when a multiple of the frequency has been reached or passed since the last
evaluation. So runs share their x values, a resume does not shift them, and the last evaluation is all the state there
is: a frequency changed in the config simply applies. Time counts training only: an evaluation pauses it.

Under many ranks the counters agree by themselves. The clock does not, so rank 0 decides for all: it predicts the step
at which the time will be up, and ranks communicate again only near that step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from midflight.errors import ConfigError
from midflight.records import Progress

Agree = Callable[[list[float]], list[float]]
"""Gives every rank the list that rank 0 passes in; a collective call."""


class EpochStepTimeFreqCtl:
    """Decides whether an evaluation is due; several triggers due at once are one evaluation.

    Args:
        freq_epoch: Due each time so many epochs are completed; fractions are allowed.
        freq_step: Due each time so many optimiser steps are completed.
        freq_sec: Due when so many seconds of training have passed since the last evaluation.
        freq_tokens: Due each time so many training tokens have been seen.
        when: Due when it returns True for the progress.
        clock: Monotonic clock, in seconds.
        agree: Broadcast from rank 0 for jobs of several ranks; None = one rank.

    Raises:
        ConfigError: If a frequency is not a number above 0.

    >>> ctl = EpochStepTimeFreqCtl(freq_epoch=1, freq_step=10, freq_sec=None)
    >>> [step for step in range(1, 31) if ctl.check(epochs=int(step % 15 == 0), steps=1)]
    [10, 15, 20, 30]
    """

    def __init__(
        self,
        freq_epoch: float | None = None,
        freq_step: int | None = None,
        freq_sec: float | None = None,
        *,
        freq_tokens: int | None = None,
        when: Callable[[Progress], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        agree: Agree | None = None,
    ) -> None:
        counts = {"freq_epoch": freq_epoch, "freq_step": freq_step, "freq_sec": freq_sec, "freq_tokens": freq_tokens}
        for name, freq in counts.items():
            check_frequency(name, freq)
        self.freq_epoch, self.freq_step, self.freq_sec, self.freq_tokens = freq_epoch, freq_step, freq_sec, freq_tokens
        self.when = when
        self._clock, self._agree = clock, agree
        self.progress = Progress()  # where training stands
        self.evaluated = Progress()  # where the last evaluation stood
        self._seconds = 0.0  # training seconds since then, up to `_since`
        self._since: float | None = clock()  # None while an evaluation pauses the clock
        self._answered: tuple[Progress, bool] | None = None
        self._ask_at = 0  # step at which ranks next agree on the time

    # -- the decision ------------------------------------------------------------------------------------------------

    def check(self, epochs: float = 0, steps: int = 1, tokens: int = 0) -> bool:
        """AReaL's form: counts increments, and takes a due evaluation for done.

        Args:
            epochs: Epochs completed since the last call.
            steps: Optimiser steps completed since the last call.
            tokens: Training tokens seen since the last call.
        """
        now = Progress(self.progress.step + steps, self.progress.epoch + epochs, self.progress.tokens + tokens)
        return self.take(now)

    def take(self, progress: Progress) -> bool:
        """Whether an evaluation is due; a due one is taken for done. Asking again costs nothing."""
        due = self.is_due(progress)
        if due:
            self.mark_done(progress)
            self._answered = (progress, True)
        return due

    def is_due(self, progress: Progress) -> bool:
        """Whether an evaluation is due; the same progress gets the same answer until it is marked done.

        On a job of several ranks every rank has to ask at the same steps.
        """
        if self._answered is not None and self._answered[0] == progress:
            return self._answered[1]
        if progress.step < self.progress.step:
            self._rewind(progress)
        self.progress = progress
        # every source is asked, none short-circuited: on several ranks some of them communicate
        due = any([self._counted(progress), self._timed(progress), self._called(progress)])
        self._answered = (progress, due)
        return due

    def _rewind(self, progress: Progress) -> None:
        """Training went back to earlier weights: what was evaluated beyond them will be due again."""
        before = self.evaluated
        self.evaluated = Progress(
            min(before.step, max(0, progress.step - 1)),
            min(before.epoch, progress.epoch),
            min(before.tokens, progress.tokens),
        )
        self._ask_at = progress.step

    def _counted(self, progress: Progress) -> bool:
        before = self.evaluated
        return (
            _passed(self.freq_epoch, before.epoch, progress.epoch)
            or _passed(self.freq_step, before.step, progress.step)
            or _passed(self.freq_tokens, before.tokens, progress.tokens)
        )

    def _timed(self, progress: Progress) -> bool:
        if self.freq_sec is None:
            return False
        if self._agree is None:
            return self.seconds >= self.freq_sec
        if progress.step < self._ask_at:
            return False
        due, ask_at = self._agree([float(self.seconds >= self.freq_sec), float(self._predict(progress))])
        self._ask_at = int(ask_at)
        return bool(due)

    def _predict(self, progress: Progress) -> int:
        """Step to ask again at: three quarters of the way to when the time will be up, as steps may slow down."""
        assert self.freq_sec is not None
        done = progress.step - self.evaluated.step
        if done <= 0 or self.seconds <= 0:
            return progress.step + 1
        left = max(0.0, self.freq_sec - self.seconds) * done / self.seconds
        return progress.step + max(1, int(0.75 * left))

    def _called(self, progress: Progress) -> bool:
        if self.when is None:
            return False
        answer = bool(self.when(progress))
        return answer if self._agree is None else bool(self._agree([float(answer)])[0])

    # -- what became of it -------------------------------------------------------------------------------------------

    def mark_done(self, progress: Progress) -> None:
        """There was an evaluation at `progress`: all triggers start from here."""
        self.progress = self.evaluated = progress
        self._seconds = 0.0
        self._since = None if self._since is None else self._clock()
        self._answered, self._ask_at = (progress, False), progress.step + 1

    @property
    def seconds(self) -> float:
        """Seconds of training since the last evaluation."""
        return self._seconds + (0.0 if self._since is None else self._clock() - self._since)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The time inside does not count as training."""
        self._seconds, self._since = self.seconds, None
        try:
            yield
        finally:
            self._since = self._clock()

    def start_at(self, progress: Progress) -> None:
        """Training starts here without any state: multiples passed before it are not made up for."""
        self.mark_done(progress)

    # -- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs, as plain JSON; frequencies are not part of it."""
        return {
            "progress": [self.progress.step, self.progress.epoch, self.progress.tokens],
            "evaluated": [self.evaluated.step, self.evaluated.epoch, self.evaluated.tokens],
            "seconds": self.seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken; the time in between does not count.

        Raises:
            ConfigError: If it is not such a state.
        """
        try:
            progress, evaluated = Progress(*state["progress"]), Progress(*state["evaluated"])
            seconds = float(state["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"not a state of {type(self).__name__}: {error!r}", got=state) from None
        self.progress, self.evaluated = progress, evaluated
        self._seconds, self._since = seconds, self._clock()
        self._answered, self._ask_at = None, progress.step + 1


def check_frequency(name: str, freq: float | None) -> None:
    """Refuses a frequency that is no number above 0.

    Raises:
        ConfigError: If it is not.
    """
    number = isinstance(freq, int | float) and not isinstance(freq, bool)
    if freq is not None and (not number or not math.isfinite(freq) or freq <= 0):
        raise ConfigError(name, got=freq, allowed="a number above 0, or None to switch it off")


def _passed(freq: float | None, before: float, now: float) -> bool:
    """Whether a multiple of `freq` lies in (before, now]; forgives the rounding of fractional epochs."""
    if freq is None:
        return False
    return math.floor(now / freq + 1e-9) > math.floor(before / freq + 1e-9)
