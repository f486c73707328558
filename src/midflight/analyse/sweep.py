"""A sweep: runs that differ in their hyper-parameters, what explains which of them is better, and which to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from midflight import environ
from midflight.analyse.common_metric import common_curves
from midflight.analyse.curves import run_names
from midflight.analyse.effects import Effects, effects_of
from midflight.analyse.halving import Rung, rung_steps, stop_first, successive_halving
from midflight.analyse.learning_curve import CurvePoint, LearningCurve
from midflight.analyse.parameters import flat, is_seed, setting
from midflight.errors import ConfigError
from midflight.store import RunInfo, Store

Pick: TypeAlias = Literal["best", "last"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A run of a sweep.

    Attributes:
        run: Its name; with its number where two share it.
        state: `running`, `finished`, `failed`, `interrupted`, or `lost`: its process is gone and has said nothing.
        last_step: Last step at which the metric was measured.
        short: Whether it has not come as far as the longest one.
        point: The outcome that was compared.
        settings: Its settings of the hyper-parameters that differ between the runs, seeds included, by dotted key.
    """

    run: str
    state: str
    last_step: int
    short: bool
    point: CurvePoint
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Sweep:
    """What a sweep shows.

    Attributes:
        metric: What the runs are judged by.
        higher_is_better: Its direction.
        held_out: Whether it was measured on held-out data; else it is a smoothed training series.
        pick: Whether the outcome is the best or the last value.
        step: The largest step that all compared runs have reached; values beyond it are not looked at.
        longest: The largest step that any run has reached.
        trials: The runs, best first.
        left_out: Runs that are not compared, and why.
        effects: What the hyper-parameters explain.
        eta: Factor of successive halving.
        rungs: Who would be stopped at which step.
        running: Runs that are still running.
        stop_first: Those of them that are to be stopped now, in this order.
        curves: The metric over the steps of each run.
    """

    metric: str
    higher_is_better: bool
    held_out: bool
    pick: Pick
    step: int
    longest: int
    trials: Sequence[Trial]
    left_out: Mapping[str, str]
    effects: Effects
    eta: float
    rungs: Sequence[Rung]
    running: Sequence[str]
    stop_first: Sequence[str]
    curves: Mapping[str, LearningCurve]


def _varying(effects: Effects) -> list[str]:
    """Parameters that differ between the runs, seeds last."""
    return [*dict.fromkeys(effect.parameter for effect in effects.effects), *filter(is_seed, effects.left_out)]


def _trials(
    outcomes: Mapping[str, CurvePoint],
    states: Mapping[str, str],
    last: Mapping[str, int],
    settings: Mapping[str, Mapping[str, Any]],
    higher_is_better: bool,
) -> list[Trial]:
    """The runs that are compared, the best first."""
    longest, sign = max(last.values()), -1.0 if higher_is_better else 1.0
    trials = [
        Trial(run, states[run], last[run], last[run] < longest, point, settings[run]) for run, point in outcomes.items()
    ]
    return sorted(trials, key=lambda trial: (sign * trial.point.value, trial.run))


def sweep_of(
    store: Store,
    runs: Sequence[RunInfo],
    metric: str | None = None,
    *,
    pick: Pick = "best",
    higher_is_better: bool | None = None,
    whole_only: bool = False,
    level: float = 0.95,
    eta: float = 3.0,
    first_rung: int | None = None,
) -> Sweep:
    """What explains the outcomes of runs, and which of them to stop; their order changes nothing.

    Args:
        store: Where they are.
        runs: The runs, two at least.
        metric: ``metric``, ``task/metric`` or the name of a training series; None = what most of the runs evaluate.
        pick: Whether the best or the last value counts, up to the largest step that all have reached.
        higher_is_better: Direction, for a training series whose name does not tell it.
        whole_only: Leave out runs that have not come as far as the longest: the others are compared at their end.
        level: Confidence level.
        eta: At each rung of successive halving the best 1/eta are kept.
        first_rung: Step of the first rung; None = the first step by which every run was measured.

    Raises:
        ConfigError: If fewer than two runs have a value, or the direction is not known.
        UnknownKeyError: If no run has the metric; says what there is.
    """
    if not 0.5 <= level < 1:
        raise ConfigError("level", got=level, allowed="from 0.5 to below 1")
    known = _named(runs)
    curves, left_out = common_curves(store, known, metric, higher_is_better)
    last = {run: int(curve.steps[-1]) for run, curve in curves.items()}
    longest = max(last.values(), default=0)
    step, outcomes, not_compared = _outcomes(curves, pick, longest if whole_only else 0)
    if len(outcomes) < 2:
        raise ConfigError("runs with a value that can be compared", got=len(outcomes), allowed="2 or more")
    judge, values = next(iter(curves.values())), [point.value for point in outcomes.values()]
    effects = effects_of([known[run].config for run in outcomes], values, judge.higher_is_better, level)
    states = {run: _state(store, known[run]) for run in curves}
    settings = {run: _settings(known[run], _varying(effects)) for run in outcomes}
    rungs = rung_steps(curves, eta, first_rung)
    running = [run for run in curves if states[run] == "running"]
    return Sweep(
        metric=judge.metric,
        higher_is_better=judge.higher_is_better,
        held_out=judge.held_out,
        pick=pick,
        step=step,
        longest=longest,
        trials=_trials(outcomes, states, last, settings, judge.higher_is_better),
        left_out={**left_out, **not_compared},
        effects=effects,
        eta=eta,
        rungs=successive_halving(curves, rungs, eta),
        running=running,
        stop_first=stop_first(curves, running, rungs, eta),
        curves=curves,
    )


def _outcomes(
    curves: Mapping[str, LearningCurve], pick: Pick, least: int
) -> tuple[int, dict[str, CurvePoint], dict[str, str]]:
    """The largest step that all runs have reached, the outcome of each by then, and runs without one.

    Args:
        curves: One metric over the steps of each run.
        pick: Whether the best or the last value counts.
        least: Runs that end before this step are left out.
    """
    last = {run: int(curve.steps[-1]) for run, curve in curves.items()}
    left_out = {run: f"ends at step {end}" for run, end in last.items() if end < least}
    step = min((end for run, end in last.items() if run not in left_out), default=0)
    outcomes = {}
    for run, curve in curves.items():
        point = curve.best(step) if pick == "best" else curve.last(step)
        if run not in left_out and point is not None:
            outcomes[run] = point
        elif run not in left_out:
            left_out[run] = f"no value by step {step}, as far as all have come"
    return step, outcomes, left_out


def _named(runs: Sequence[RunInfo]) -> dict[str, RunInfo]:
    """Each run once, in an order of their own, by its name."""
    chosen = sorted({run.id: run for run in runs}.values(), key=lambda run: (run.project, run.name, run.id))
    names = run_names(chosen)
    return {names[run.id]: run for run in chosen}


def _settings(run: RunInfo, names: Sequence[str]) -> dict[str, str]:
    config = flat(run.config)
    return {name: setting(config[name]) for name in names if name in config}


def _state(store: Store, run: RunInfo) -> str:
    """A run that says it is running is lost if its process is gone."""
    alive = run.status != "running" or environ.is_alive(store.owner(run.id), run.heartbeat)
    return run.status if alive else "lost"
