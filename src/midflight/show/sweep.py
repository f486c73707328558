"""What a sweep shows, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from midflight.analyse.effects import Effect
from midflight.analyse.halving import VERDICTS
from midflight.analyse.sweep import Sweep
from midflight.errors import shorten
from midflight.show.compare import p_text
from midflight.show.lines import interval, number, signed_with_interval
from midflight.show.plot import COLOURS, checked_out, dress, new_figure, plain, save
from midflight.show.tables import cell, new_table

RUNS_SHOWN = 20
SETTINGS_SHOWN = 6
PAIRS_SHOWN = 5
INFLATED = 10.0
"""Inflation of the variance from which it is told: the usual rule of thumb for collinear parameters."""
_FINDINGS = {"better": "green", "worse": "red"}


def sweep_tables(sweep: Sweep) -> Group:
    """Runs, effects and rungs, and what a reader has to know of each."""
    parts: list[Any] = [_trials(sweep), *map(Text, _trial_notes(sweep)), Text("")]
    if sweep.effects.effects:
        parts += [_effects("effects", sweep.effects.effects), *map(Text, _effect_notes(sweep)), Text("")]
    else:
        parts += [Text("no hyper-parameter in the runs' configurations varies"), *map(Text, _left_out(sweep)), Text("")]
    if sweep.effects.interactions:
        parts += [_effects("interactions", sweep.effects.interactions), Text("")]
    return Group(*parts, _rungs(sweep), *map(Text, _advice(sweep)))


def _trials(sweep: Sweep) -> Table:
    names = list(dict.fromkeys(name for trial in sweep.trials for name in trial.settings))[:SETTINGS_SHOWN]
    way = "higher" if sweep.higher_is_better else "lower"
    marks = ["reached"] if any(trial.short for trial in sweep.trials) else []
    title = f"{sweep.metric}, {sweep.pick} up to step {sweep.step} ({way} is better)"
    table = new_table(title, "run", "state", *(cell(name, 30) for name in names), "value", "at step", *marks)
    for trial in sweep.trials[:RUNS_SHOWN]:
        settings = [cell(trial.settings.get(name, "–"), 24) for name in names]
        reached = [f"only {trial.last_step}" if trial.short else str(trial.last_step)] if marks else []
        table.add_row(
            cell(trial.run),
            trial.state,
            *settings,
            escape(interval(trial.point.value, trial.point.low, trial.point.high)),
            str(trial.point.step),
            *reached,
        )
    return table


def _trial_notes(sweep: Sweep) -> list[str]:
    notes = [] if sweep.held_out else ["mean of ten records of a training series, not held out"]
    if len(sweep.trials) > RUNS_SHOWN:
        notes.append(f"{RUNS_SHOWN} of {len(sweep.trials)} runs; --json has all")
    short = sum(trial.short for trial in sweep.trials)
    if short:
        ends = f"{short} of {len(sweep.trials)} runs end before step {sweep.longest}"
        notes.append(f"{ends}: all are compared at step {sweep.step}; --whole-only leaves the short ones out")
    return [*notes, *(f"left out: {shorten(run, 60)}: {why}" for run, why in sweep.left_out.items())]


def _effects(title: str, effects: Sequence[Effect]) -> Table:
    table = new_table(title, "parameter", "from → to", "effect", "p (Holm)", "finding")
    for effect in effects:
        colour = _FINDINGS.get(effect.finding, "")
        finding = f"[{colour}]{effect.finding}[/{colour}]" if colour else effect.finding
        table.add_row(
            cell(effect.parameter),
            cell(f"{effect.start} → {effect.end}" + " (log)" * (effect.scale == "log")),
            escape(signed_with_interval(effect.value, effect.ci_low, effect.ci_high)),
            "–" if effect.p_adjusted is None else p_text(effect.p_adjusted),
            "not estimable" if effect.value is None else finding,
        )
    return table


def _effect_notes(sweep: Sweep) -> list[str]:
    found = sweep.effects
    model = f"linear model over {found.n} runs, {found.df} residual degrees of freedom"
    if found.df <= 0:
        model += ": no errors can be told; more runs, or seeds as replicates, would"
    if found.residual_sd is not None and found.explained is not None:
        model += f"; explains {found.explained:z.0%}, residual sd {number(found.residual_sd)}"
    groups = dict.fromkeys(tuple(sorted({e.parameter, *e.confounded_with})) for e in found.effects if e.value is None)
    notes = [model, *(f"cannot be told apart: {shorten(', '.join(group), 150)}" for group in groups)]
    notes += [
        f"{shorten(e.parameter, 60)}: hard to tell from {shorten(e.nearest, 60)}: variance × {number(e.inflation, 2)}"
        for e in found.effects
        if e.inflation is not None and e.inflation >= INFLATED
    ]
    notes += [
        f"{shorten(name, 60)}: its effect is no straight line: the best setting may lie in between"
        for name in found.bends
    ]
    pairs = list(found.not_estimable.items())
    if pairs:
        shown = "; ".join(f"{shorten(pair, 80)} ({why})" for pair, why in pairs[:PAIRS_SHOWN])
        more = f"; and {len(pairs) - PAIRS_SHOWN} more" if len(pairs) > PAIRS_SHOWN else ""
        notes.append(f"interactions not estimable: {shown}{more}")
    return [*notes, *_left_out(sweep)]


def _left_out(sweep: Sweep) -> list[str]:
    return [f"not in the model: {shorten(name, 60)}: {why}" for name, why in sweep.effects.left_out.items()]


def _rungs(sweep: Sweep) -> Table:
    title = f"successive halving in hindsight: the best 1/{sweep.eta:g} are kept"
    table = new_table(title, "rung: step", "runs", "kept", "would be stopped", "undecided")
    for rung in sweep.rungs:
        names = [[one.run for one in rung.standings if one.verdict == verdict] for verdict in VERDICTS]
        cells = [cell(f"{len(runs)}: {', '.join(runs)}" if runs else "–", 120) for runs in names]
        table.add_row(str(rung.step), str(len(rung.standings)), *cells)
    return table


def _advice(sweep: Sweep) -> list[str]:
    """What the rule would have done to the best run, and which running run to stop first."""
    best = sweep.trials[0].run
    fell = next((r.step for r in sweep.rungs for one in r.standings if (one.run, one.verdict) == (best, "stop")), None)
    lines = [] if fell is None else [f"at step {fell} it would have stopped {shorten(best, 60)}, now the best run"]
    if sweep.rungs and all(one.point.low is None for rung in sweep.rungs for one in rung.standings):
        lines.append(
            f"{shorten(sweep.metric, 60)} has no intervals, so that nothing is proved; evaluations of tasks have"
        )
    if not sweep.running:
        return [*lines, "none of the runs is running"]
    if sweep.stop_first:
        return [*lines, f"stop first: {', '.join(shorten(run, 60) for run in sweep.stop_first)}"]
    return [*lines, f"{len(sweep.running)} running: none is proved worse than all that are kept; nothing to stop yet"]


def draw_sweep(sweep: Sweep, out: str | Path) -> None:
    """Draws effects with their intervals, and the curves with the rungs at which runs would be stopped.

    Raises:
        ConfigError: If the format is unknown, or the file cannot be written.
        MissingExtraError: If matplotlib is not installed.
    """
    out = checked_out(out)
    told = [effect for effect in (*sweep.effects.effects, *sweep.effects.interactions) if effect.value is not None]
    figure = new_figure(12.4, max(4.2, 1.6 + 0.42 * len(told)))
    left, right = figure.subplots(1, 2)
    _draw_effects(left, told)
    _draw_curves(right, sweep)
    effect = f"effect on {sweep.metric}, {sweep.effects.n} runs"
    dress(left, "green: better, orange: worse, grey: undecided", effect, "")
    dress(right, sweep.metric, "step; dotted: rungs of successive halving", "")
    save(figure, out)


def _draw_effects(axes: Any, effects: Sequence[Effect]) -> None:
    axes.axvline(0, color="#555555", linewidth=0.8)
    for at, effect in enumerate(effects):
        colour = {"better": COLOURS[2], "worse": COLOURS[1]}.get(effect.finding, "#777777")
        if effect.ci_low is not None:
            axes.plot([effect.ci_low, effect.ci_high], [at, at], color=colour, linewidth=2)
        axes.plot([effect.value], [at], "o", color=colour, markersize=5)
    labels = [f"{plain(e.parameter, 40)}\n{plain(f'{e.start} → {e.end}', 40)}" for e in effects]
    axes.set_yticks(range(len(effects)), labels)
    axes.invert_yaxis()


def _draw_curves(axes: Any, sweep: Sweep) -> None:
    fell = {one.run: rung.step for rung in sweep.rungs for one in rung.standings if one.verdict == "stop"}
    kept = {one.run for one in sweep.rungs[-1].standings if one.verdict == "kept"} if sweep.rungs else set()
    looks: Mapping[str, dict[str, Any]] = {
        "kept at the last rung": {"color": COLOURS[0], "linewidth": 1.6},
        "would be stopped": {"color": COLOURS[1], "linewidth": 1.0, "linestyle": "--"},
        "undecided, or ended before": {"color": "#999999", "linewidth": 1.0},
    }
    told = set()
    for run, curve in sweep.curves.items():
        kind = "kept at the last rung" if run in kept else "would be stopped" if run in fell else list(looks)[-1]
        axes.plot(curve.steps, curve.values, label="_" if kind in told else kind, **looks[kind])
        told.add(kind)
        if run in fell and (point := curve.last(fell[run])) is not None:
            axes.plot([point.step], [point.value], "x", color=COLOURS[1], markersize=7)
    for rung in sweep.rungs:
        axes.axvline(rung.step, color="#555555", linewidth=0.6, linestyle=":")
    axes.legend(fontsize=8, frameon=False)
