"""`midflight eval`: one model, some tasks, now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption
from midflight.records import EvalReport


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
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the report as JSON (a list for several).")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="hf: float32, bfloat16, float16 or auto.")] = None,
    device: Annotated[str | None, typer.Option(help="hf: cuda, cpu, …")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="hf: tokens in a batch at most.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="openai: requests in flight at most.")] = None,
    no_chat: Annotated[
        bool, typer.Option("--no-chat", help="Send plain text, whatever template the model has.")
    ] = False,
    json_: JsonOption = False,
) -> int:
    """Evaluate a model on tasks. What was evaluated before is read from the store; what was begun is completed."""
    from midflight.cli._quiet import quiet_libraries
    from midflight.engines import open_engine
    from midflight.errors import ConfigError
    from midflight.pipeline import evaluate_checkpoint
    from midflight.records import Progress
    from midflight.run import Run
    from midflight.show.progress import watching
    from midflight.show.tables import console, report_table
    from midflight.tasks import load_task

    quiet_libraries()
    if step < 0:
        raise ConfigError("--step", got=step, allowed="a whole number from 0")
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: its folder does not exist")
    tasks = [load_task(name, limit=limit, seed=seed) for name in task]
    options = {"dtype": dtype, "device": device, "tokens_per_batch": batch_tokens, "concurrency": concurrency}
    chosen: dict[str, object] = {key: value for key, value in options.items() if value is not None}
    if no_chat:
        chosen["chat"] = False
    for one in tasks:
        _ = one.items  # a broken file shows before a model is loaded
    reports: list[EvalReport] = []
    with open_engine(model, **chosen) as engine:
        record = Run(project, run or _run_name(model), store=store, resume="attach")
        with record, watching(console(stderr=True), quiet=json_) as tell:
            for one in tasks:
                found = evaluate_checkpoint(one, engine, run=record, progress=Progress(step), seed=seed, watch=tell)
                reports.append(found)
                if not json_:
                    console().print(report_table(found))
    _write(reports, out, json_)
    return 0 if all(report.status == "done" for report in reports) else 1


def _run_name(model: str) -> str:
    kind, _, rest = model.partition(":")
    if kind in ("openai", "fake"):
        return (rest.partition("#")[2] or kind)[:200]
    return Path(model).absolute().name[:200]


def _write(reports: list[EvalReport], out: Path | None, as_json: bool) -> None:
    from midflight.errors import ConfigError
    from midflight.schema import report_to_json

    texts = [report_to_json(report, indent=2) for report in reports]
    text = texts[0] if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]"
    if as_json:
        sys.stdout.write(text + "\n")
    if out is not None:
        try:
            out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--out {out}: cannot be written: {error.strerror or error}") from None
