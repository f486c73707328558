"""When an evaluation is due. Numbers in names are those of the defects of AReaL's evaluator that must not come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.errors import ConfigError
from midflight.records import Progress
from midflight.triggers import EpochStepTimeFreqCtl


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fired(ctl: EpochStepTimeFreqCtl, steps: int, steps_per_epoch: int = 10**9) -> list[int]:
    return [s for s in range(1, steps + 1) if ctl.check(epochs=int(s % steps_per_epoch == 0), steps=1)]


def test_defect_1_time_trigger_works_without_torch_distributed():
    clock = Clock()
    ctl = EpochStepTimeFreqCtl(None, None, 10, clock=clock)
    assert not ctl.check(epochs=0, steps=1)
    clock.now += 10
    assert ctl.check(epochs=0, steps=1)


def test_defect_3_steps_are_multiples_and_a_resume_does_not_shift_them():
    ctl = EpochStepTimeFreqCtl(None, 5, None)
    assert fired(ctl, 12) == [5, 10]
    again = EpochStepTimeFreqCtl(None, 5, None)
    again.load_state_dict(ctl.state_dict())
    assert [s for s in range(13, 26) if again.check(steps=1)] == [15, 20, 25]


def test_defect_4_a_changed_frequency_is_honoured_on_resume():
    ctl = EpochStepTimeFreqCtl(None, 10, None)
    assert fired(ctl, 13) == [10]
    changed = EpochStepTimeFreqCtl(None, 4, None)
    changed.load_state_dict(ctl.state_dict())
    assert changed.freq_step == 4
    # 12 was passed since the evaluation at 10, so that 14 makes up for it
    assert [s for s in range(14, 25) if changed.check(steps=1)] == [14, 16, 20, 24]


def test_defect_5_triggers_due_together_are_one_evaluation():
    # AReaL fired at 0, 9, 11, 19, 23 of 24 (indices from 0); here each multiple once, 12 being the end of an epoch
    ctl = EpochStepTimeFreqCtl(freq_epoch=1, freq_step=10, freq_sec=None)
    assert fired(ctl, 24, steps_per_epoch=12) == [10, 12, 20, 24]
    both = EpochStepTimeFreqCtl(freq_epoch=1, freq_step=6, freq_sec=None)
    assert fired(both, 24, steps_per_epoch=12) == [6, 12, 18, 24]


def test_defect_7_evaluation_time_is_not_training_time():
    clock = Clock()
    ctl = EpochStepTimeFreqCtl(None, None, 60, clock=clock)
    clock.now += 59
    with ctl.paused():
        clock.now += 1000
    assert not ctl.check(steps=1)
    clock.now += 1
    assert ctl.check(steps=1)
    with ctl.paused():
        clock.now += 1000
    clock.now += 59
    assert not ctl.check(steps=1)


def test_defect_7_downtime_is_not_training_time():
    clock = Clock()
    ctl = EpochStepTimeFreqCtl(None, None, 60, clock=clock)
    clock.now += 40
    ctl.check(steps=1)
    state = ctl.state_dict()
    clock.now += 100_000
    again = EpochStepTimeFreqCtl(None, None, 60, clock=clock)
    again.load_state_dict(state)
    clock.now += 19
    assert not again.check(steps=1)
    clock.now += 1
    assert again.check(steps=1)


def test_asking_twice_about_one_step_answers_the_same_and_consumes_one_tick():
    ctl = EpochStepTimeFreqCtl(None, 3, None)
    answers = [(ctl.take(Progress(step)), ctl.take(Progress(step))) for step in range(1, 8)]
    assert answers == [(s in (3, 6), s in (3, 6)) for s in range(1, 8)]


def test_tokens():
    ctl = EpochStepTimeFreqCtl(freq_tokens=1000)
    seen = [step for step in range(1, 11) if ctl.check(steps=1, tokens=300)]
    assert seen == [4, 7, 10]  # 1,200, 2,100 and 3,000 tokens


def test_a_callable_decides():
    ctl = EpochStepTimeFreqCtl(when=lambda progress: progress.step in (2, 7))
    assert fired(ctl, 10) == [2, 7]


def test_fractional_epochs_forgive_rounding():
    ctl = EpochStepTimeFreqCtl(freq_epoch=0.1)
    steps = [s for s in range(1, 31) if ctl.take(Progress(s, epoch=s / 30))]
    assert steps == [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]


def test_a_jump_over_several_multiples_is_one_evaluation():
    ctl = EpochStepTimeFreqCtl(None, 10, None)
    assert ctl.check(steps=35)
    assert not ctl.check(steps=4)
    assert ctl.check(steps=1)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "10", True])
@pytest.mark.parametrize("name", ["freq_epoch", "freq_step", "freq_sec", "freq_tokens"])
def test_a_frequency_that_is_no_number_above_0_is_refused(name, bad):
    with pytest.raises(ConfigError, match=rf"{name}; got .*; allowed: a number above 0, or None"):
        EpochStepTimeFreqCtl(**{name: bad})


@pytest.mark.parametrize("state", [{}, {"progress": [1]}, {"progress": 3, "evaluated": 4}])
def test_a_foreign_state_is_refused(state):
    with pytest.raises(ConfigError, match="not a state"):
        EpochStepTimeFreqCtl(None, 1, None).load_state_dict(state)


@given(
    freq=st.integers(1, 20),
    length=st.integers(1, 120),
    cuts=st.lists(st.integers(1, 119), max_size=4),
)
def test_restarts_anywhere_change_nothing(freq, length, cuts):
    """Whatever the restarts, the evaluations are at the multiples."""
    ctl, found = EpochStepTimeFreqCtl(None, freq, None), []
    for step in range(1, length + 1):
        if step in cuts:
            state, ctl = ctl.state_dict(), EpochStepTimeFreqCtl(None, freq, None)
            ctl.load_state_dict(state)
        if ctl.check(steps=1):
            found.append(step)
    assert found == list(range(freq, length + 1, freq))


@given(freq=st.integers(1, 50), jumps=st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_never_two_evaluations_for_one_multiple(freq, jumps):
    ctl, step, found = EpochStepTimeFreqCtl(None, freq, None), 0, []
    for jump in jumps:
        step += jump
        if ctl.check(steps=jump):
            found.append(step)
    multiples = [at // freq for at in found]
    assert len(set(multiples)) == len(multiples)
    assert multiples == sorted(multiples)
    assert step // freq == 0 or multiples[-1] == step // freq  # the last one passed was evaluated


class Ranks:
    """Ranks in lockstep: `agree` gives all of them what rank 0 said, and counts."""

    def __init__(self) -> None:
        self.said: list[float] = []
        self.collectives = 0

    def of(self, rank: int):
        def agree(values: list[float]) -> list[float]:
            if rank == 0:
                self.said, self.collectives = values, self.collectives + 1
            return self.said

        return agree


@given(st.lists(st.floats(0.01, 3.0), min_size=50, max_size=300), st.integers(5, 60))
def test_ranks_with_different_clocks_decide_the_same(durations, freq):
    ranks, clocks = Ranks(), [Clock(), Clock()]
    ctls = [EpochStepTimeFreqCtl(None, None, freq, clock=c, agree=ranks.of(i)) for i, c in enumerate(clocks)]
    for step, seconds in enumerate(durations, start=1):
        clocks[0].now += seconds
        clocks[1].now += seconds * 1.7 + 3  # a rank whose clock goes quite differently
        assert ctls[0].take(Progress(step)) == ctls[1].take(Progress(step))


def test_a_time_trigger_costs_no_collective_on_most_steps():
    ranks, clock = Ranks(), Clock()
    ctl = EpochStepTimeFreqCtl(None, None, 600, clock=clock, agree=ranks.of(0))
    found = []
    for step in range(1, 3001):
        clock.now += 1.0
        if ctl.take(Progress(step)):
            found.append(step)
    assert found == [600, 1200, 1800, 2400, 3000]
    assert ranks.collectives <= 5 * 16  # nine tenths of the way each time
