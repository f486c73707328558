"""`midflight eval`: one model, some tasks, now."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import BaselineOption, ClaimOption, JsonOption, MarginOption, StoreOption, path_option
from midflight.errors import ConfigError, shorten
from midflight.records import EvalReport

if TYPE_CHECKING:
    from midflight.engines import BaseEngine
    from midflight.run import Run
    from midflight.sequential import SequentialRule
    from midflight.tasks import Task


def evaluate(
    model: Annotated[str, typer.Argument(help="A model folder, a .gguf file, openai:URL#model, or fake:text.")],
    task: Annotated[
        list[str], typer.Option("--task", "-t", help="Task name, name@local-file, or task.toml; repeat it.")
    ],
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Items of each task at most.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling, of the items that --limit draws, and of bootstrap.")] = 0,
    store: StoreOption = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Run that the results belong to. Default: the model.")
    ] = None,
    project: Annotated[str, typer.Option("--project", help="Project of the run.")] = "default",
    step: Annotated[int, typer.Option(help="Training step that the weights are from.")] = 0,
    baseline: BaselineOption = None,
    margin: MarginOption = None,
    claim: ClaimOption = "not_worse",
    out: Annotated[Path | None, path_option("--out", "-o", help="Write the reports as a JSON list.")] = None,
    dtype: Annotated[str | None, typer.Option(help="hf: float32, bfloat16, float16 or auto.")] = None,
    device: Annotated[str | None, typer.Option(help="hf: cuda, cpu, …")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="hf: tokens in a batch at most.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="openai: requests in flight at most.")] = None,
    no_chat: Annotated[
        bool, typer.Option("--no-chat", help="Send plain text, whatever template the model has.")
    ] = False,
    print_prompts: Annotated[
        int | None, typer.Option("--print-prompts", min=1, help="Print the prompts of so many items, and stop.")
    ] = None,
    json_: JsonOption = False,
) -> int:
    """Evaluate a model on tasks. What was evaluated before is read from the store; what was begun is completed."""
    from midflight.cli._options import checked_model, checked_seed, checked_step, load_tasks, print_json, rules_for
    from midflight.cli._quiet import quiet_libraries

    quiet_libraries()
    checked_step(step)
    checked_seed(seed)
    checked_model(model)
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: its folder does not exist")
    options = {"dtype": dtype, "device": device, "tokens_per_batch": batch_tokens, "concurrency": concurrency}
    chosen = _engine_options(model, options)
    if no_chat:
        chosen["chat"] = False
    tasks = load_tasks(task, limit, seed)
    rules = rules_for(tasks, baseline, margin, claim, seed)
    if print_prompts is not None:
        return _print_prompts(model, chosen, tasks, print_prompts, seed)

    from midflight.run import Run
    from midflight.store import open_store

    opened = open_store(store)  # a store that cannot be opened shows before a model is loaded
    with _load(model, chosen, quiet=json_) as engine:
        record = Run(project, run or _run_name(model), store=opened, resume="attach")
        reports = _evaluate(engine, tasks, record, step, seed, rules, quiet=json_)
    if json_:
        print_json([dataclasses.asdict(report) for report in reports])
    if out is not None:
        _write(reports, out)
    return 0 if all(_is_whole(report) for report in reports) else 1


def _engine_options(model: str, options: Mapping[str, object]) -> dict[str, object]:
    """The options that were given, if they are for the engine of this model."""
    kind = model.partition(":")[0]
    engine = kind if kind in ("openai", "fake") else "hf"
    chosen = {key: value for key, value in options.items() if value is not None}
    for key, value in chosen.items():
        wanted = "openai" if key == "concurrency" else "hf"
        if wanted != engine:
            name = "batch-tokens" if key == "tokens_per_batch" else key
            raise ConfigError(f"--{name}", got=value, allowed=f"with a model of the {wanted} engine, not {engine}")
    return chosen


def _load(model: str, options: dict[str, object], quiet: bool) -> BaseEngine:
    """The engine; says that it is loading where that takes long."""
    from midflight.engines import open_engine
    from midflight.show.tables import console

    if not quiet and Path(model).exists():
        console(stderr=True).print(f"midflight: loading {shorten(model)}…", markup=False, soft_wrap=True)
    return open_engine(model, **options)


def _evaluate(
    engine: BaseEngine,
    tasks: Sequence[Task],
    record: Run,
    step: int,
    seed: int,
    rules: Mapping[str, SequentialRule],
    quiet: bool,
) -> list[EvalReport]:
    """The report of each task, shown as it comes."""
    from midflight.pipeline import evaluate_checkpoint
    from midflight.records import Progress
    from midflight.show.progress import watching
    from midflight.show.tables import console, report_table

    reports = []
    with record, watching(console(stderr=True), quiet) as tell:
        for one in tasks:
            began = time.time()
            found = evaluate_checkpoint(
                one, engine, run=record, progress=Progress(step), seed=seed, watch=tell, stop=rules.get(one.name)
            )
            reports.append(found)
            if not quiet:
                console().print(report_table(found, from_store=found.started_at < began))
    return reports


def _is_whole(report: EvalReport) -> bool:
    """Whether each item has a score and each metric a value; says which metric has none, and why."""
    from midflight.show.lines import without_value
    from midflight.show.tables import console

    missing = without_value(report)
    for estimate in missing:
        text = shorten(f"{report.task}: {estimate.metric} has no value: {estimate.note}", 500)
        console(stderr=True).print(f"midflight: {text}", markup=False, soft_wrap=True)
    return report.status == "done" and not missing


def _print_prompts(model: str, options: dict[str, object], tasks: Sequence[Task], num: int, seed: int) -> int:
    from midflight.cli._prompts import print_prompts

    with _load(model, options, quiet=False) as engine:
        for one in tasks:
            print_prompts(one, engine, num, seed)
    return 0


def _run_name(model: str) -> str:
    kind, _, rest = model.partition(":")
    if kind in ("openai", "fake"):
        return (rest.partition("#")[2] or kind)[:200]
    return Path(model).absolute().name[:200]


def _write(reports: Sequence[EvalReport], out: Path) -> None:
    from midflight.schema import to_json

    text = to_json([dataclasses.asdict(report) for report in reports], indent=2)
    try:
        out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror or error}") from None
