"""`midflight power`: how many items does it take to see a difference, and what can this task show?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption
from midflight.errors import ConfigError, UnknownKeyError, shorten

if TYPE_CHECKING:
    from midflight.cli._ground import Ground


@dataclass(frozen=True, slots=True)
class Plan:
    """What is printed.

    Attributes:
        task: The task; empty if none was named.
        metric: The metric.
        source: Where the variance is from, and what was passed over.
        items: Items that the task has; None if it cannot be loaded.
        detect: The difference that is to be seen.
        samples: Samples an item that are planned; None = as many as were taken.
        alpha: Error rate, two-sided.
        power: Probability of seeing it.
        variance: Variance of the difference an item, design effect included.
        between: What is left of it with endless samples; None if not known.
        correlation: Between the scores of both models.
        design_effect: What clusters make of it.
        items_needed: Items that show the difference.
        detectable: Smallest difference that the task's items show; None without them.
        decided_if_equal: Items after which half of the evaluations of an equal model have decided `not_worse` by the
            difference; None if the metric has no two bounds.
        decided_if_better: Items after which half of the evaluations of a model that is better by the difference have
            decided `better`.
    """

    task: str
    metric: str
    source: str
    items: int | None
    detect: float
    samples: int | None
    alpha: float
    power: float
    variance: float
    between: float | None
    correlation: float | None
    design_effect: float
    items_needed: int
    detectable: float | None
    decided_if_equal: int | None
    decided_if_better: int | None


def power(
    detect: Annotated[float, typer.Option("--detect", help="Difference to be seen, in the unit of the metric.")],
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Task, as the store or `midflight eval` knows it. --accuracy needs none."),
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", "-m", help="Default: the task's first.")] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="RUN or RUN@STEP that the variance is from. Default: newest run.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, help="Samples an item that are planned.")] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Error rate, two-sided.")] = 0.05,
    power: Annotated[float, typer.Option("--power", help="Probability of seeing the difference.")] = 0.8,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="Share of right answers, where nothing is stored yet.")
    ] = None,
    correlation: Annotated[
        float | None, typer.Option("--correlation", help="Between both models, where the store has only one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """How many items it takes to see a difference between two models, and which difference a task can show.

    The variance is that of two evaluations in the store, or follows from --accuracy and --correlation.
    """
    from midflight.cli._ground import from_shares, from_store
    from midflight.cli._options import checked_seed, existing_store, print_json

    checked_seed(seed)
    _check_shares(("--alpha", alpha), ("--power", power), ("--accuracy", accuracy))
    if not 0 < detect < math.inf:
        raise ConfigError("--detect", got=detect, allowed="a difference above 0")
    if correlation is not None and not -1 <= correlation < 1:
        raise ConfigError("--correlation", got=correlation, allowed="from -1 to below 1")
    if accuracy is not None and baseline is not None:
        raise ConfigError("--accuracy and --baseline", got=(accuracy, baseline), allowed="one of them")
    if accuracy is not None:
        ground = from_shares(task, metric, accuracy, correlation)
    elif task is None:
        raise ConfigError("no --task", allowed="a task of the store, or --accuracy and --correlation instead")
    else:
        task = _name(task)
        ground = from_store(existing_store(store), task, metric, baseline, correlation)
    if ground.width is not None and detect > ground.width:
        raise ConfigError(
            "--detect",
            got=detect,
            allowed=f"above 0, up to {ground.width:g}: all that {ground.metric} can differ by",
            hint="a point of a hundred is 0.01",
        )
    plan = _plan(task or "", ground, detect, samples, alpha, power, seed)
    if json_:
        print_json(asdict(plan))
    else:
        _print(plan)
    return 0


def _name(task: str) -> str:
    """The name under which the store has a task: that in its file, where it is one."""
    from midflight.tasks import load_task

    try:
        return load_task(task).name
    except UnknownKeyError:
        return task


def _check_shares(*options: tuple[str, float | None]) -> None:
    for name, value in options:
        if value is not None and not 0 < value < 1:
            raise ConfigError(name, got=value, allowed="between 0 and 1")


def _plan(task: str, ground: Ground, detect: float, samples: int | None, alpha: float, power: float, seed: int) -> Plan:
    from midflight.estimate.power import detectable, items_needed, items_until_decided, set_with_mean

    variance = ground.spread.of_items(samples)
    width = ground.width
    equal = better = None
    if width is not None and detect < width and samples is None and ground.sizes and max(ground.sizes) <= width:
        if same := set_with_mean(ground.sizes, 0.0):
            equal = items_until_decided(same, "not_worse", detect, width=width, alpha=alpha, seed=seed)
        if apart := set_with_mean(ground.sizes, detect):
            better = items_until_decided(apart, "better", 0.0, width=width, alpha=alpha, seed=seed)
    return Plan(
        task=task,
        metric=ground.metric,
        source=ground.source,
        items=ground.items,
        detect=detect,
        samples=samples,
        alpha=alpha,
        power=power,
        variance=variance,
        between=ground.spread.between,
        correlation=ground.spread.correlation,
        design_effect=ground.spread.design_effect,
        items_needed=items_needed(variance, detect, alpha=alpha, power=power),
        detectable=detectable(variance, ground.items, alpha=alpha, power=power) if ground.items else None,
        decided_if_equal=equal,
        decided_if_better=better,
    )


def _print(plan: Plan) -> None:
    from midflight.show.lines import number
    from midflight.show.tables import console

    at = f"alpha {plan.alpha:g} two-sided, power {plan.power:g}"
    samples = "" if plan.samples is None else f", {plan.samples} samples an item"
    size = "" if plan.items is None else f"{plan.items:,} items"
    lines = [
        " · ".join(filter(None, (shorten(plan.task), plan.metric, size, shorten(plan.source, 1000)))),
        f"variance of the difference {number(plan.variance)} an item{samples}" + _beside(plan),
        f"to see {plan.detect:g}: {plan.items_needed:,} items ({at})",
    ]
    if plan.detectable is not None:
        lines.append(f"these {size} can show {number(plan.detectable, 3)}")
    for items, text in (
        (plan.decided_if_equal, f"an equal model is not worse by more than {plan.detect:g}"),
        (plan.decided_if_better, f"a model that is better by {plan.detect:g} is better"),
    ):
        if items is not None:
            lines.append(f"ending early, half of the evaluations have decided that {text} after {items:,} items")
    if plan.decided_if_equal is not None or plan.decided_if_better is not None:
        lines.append("(simulated; that is about these items with these answers, the lines above about any like them)")
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)


def _beside(plan: Plan) -> str:
    from midflight.show.lines import number

    parts = []
    if plan.correlation is not None:
        parts.append(f"correlation {plan.correlation:z.2f}")
    if plan.between is not None:
        parts.append(f"{number(plan.between)} of it between items, the rest sampling")
    if plan.design_effect > 1:
        parts.append(f"design effect of clusters {plan.design_effect:.2f}")
    return f" ({'; '.join(parts)})" if parts else ""
