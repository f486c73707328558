"""What the demo shows at the end: a table, a picture, reports, and one sentence with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from midflight.demo.training import HOT, PROJECT, STRATEGIES
from midflight.estimate import Interval, mean_interval
from midflight.records import EvalReport
from midflight.schema import report_to_json
from midflight.show.findings import finding_text
from midflight.show.lines import duration, with_interval
from midflight.show.plot import EvaluationCurve, Panel, SeriesCurve, draw
from midflight.show.series import read_series
from midflight.store import RunInfo, Store

COLUMNS = (
    ("sums", "solved@1"),
    ("sums", "solved@2"),
    ("sums", "solved@4"),
    ("sums", "reward"),
    ("sums", "token_entropy"),
    ("solutions", "perplexity"),
)


def tell_story(store: Store, out: Path, screen: Console) -> None:
    """Prints table and sentences, writes picture and reports."""
    runs = sorted(store.runs(PROJECT), key=lambda run: run.name)
    reports = {run.name: store.reports(run.id) for run in runs}
    screen.print(_table(reports))
    _draw(store, runs, reports, out / "curves.png")
    written = _write_reports(reports, out / "reports")
    for metric, meaning in (
        ("solved@4", "solved within 4 turns"),
        ("solved@1", "solved at once"),
        ("reward", "reward"),
    ):
        sentence = compare(store, reports, metric, meaning)
        if sentence:
            screen.print(sentence, markup=False, soft_wrap=True)
    screen.print(_cost(reports), markup=False, soft_wrap=True)
    _tell_findings(store, runs, reports, screen)
    screen.print(
        f"picture: {out}/curves.png   reports: {out}/reports/ ({written} files)   store: {out}/midflight.db"
        f"   more: midflight show mt4-seed0 --store {out}/midflight.db",
        markup=False,
        soft_wrap=True,
    )


def _tell_findings(
    store: Store, runs: Sequence[RunInfo], reports: dict[str, list[EvalReport]], screen: Console
) -> None:
    """What the detectors noticed, and what stopping for it saved."""
    for run in runs:
        for finding in store.findings(run.id):
            screen.print(f"{run.name}:", style="bold", markup=False)
            screen.print(finding_text(finding))
            last, planned = max(report.progress.step for report in reports[run.name]), run.config["max_steps"]
            if finding.severity == "stop" and last < planned:
                said = f"    stopped  at step {last} of {planned}: {1 - last / planned:.0%} of its compute is saved"
                screen.print(said, markup=False, soft_wrap=True)


def _cost(reports: dict[str, list[EvalReport]]) -> str:
    """What the evaluations took, and what of it training had to wait for."""
    all_reports = [report for found in reports.values() for report in found]
    seconds = sum(report.cost.seconds for report in all_reports)
    shares = [report.cost.train_share for report in all_reports if report.cost.train_share is not None]
    return (
        f"{len(all_reports)} evaluations took {duration(seconds)}, beside training: it stood still for them for"
        f" {max(shares, default=0.0):.2%} of its time at most"
    )


def _table(reports: dict[str, list[EvalReport]]) -> Table:
    """Runs × metrics, first and last evaluation."""
    title = "value [95 % interval] on held-out sums, before training and after"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("run", "step", *(metric for _, metric in COLUMNS)):
        table.add_column(name)
    for name, found in reports.items():
        steps = [report.progress.step for report in found]
        for step in dict.fromkeys((min(steps), max(steps))):
            at = {report.task: report for report in found if report.progress.step == step}
            cells = [with_interval(at[task].estimate(metric)) if task in at else "–" for task, metric in COLUMNS]
            table.add_row(name, str(step), *cells)
    return table


def _draw(store: Store, runs: Sequence[RunInfo], reports: dict[str, list[EvalReport]], out: Path) -> None:
    """Training reward and the curves of all metrics; a colour a strategy, a line style a seed."""

    def group(run: RunInfo) -> str:
        return str(run.config["strategy"])

    trained = [SeriesCurve(run.name, read_series(store, run.id, "reward"), group(run)) for run in runs]
    panels = [Panel("training: reward of the batch (own number of turns)", trained)]
    titles = {
        "reward": "held-out: reward, up to 4 turns",
        "token_entropy": "held-out: policy entropy",
        "perplexity": "held-out: perplexity of the solution",
    }
    for task, metric in (COLUMNS[3], COLUMNS[0], COLUMNS[2], COLUMNS[5], COLUMNS[4]):
        curves = [
            EvaluationCurve(run.name, [r for r in reports[run.name] if r.task == task], metric, group=group(run))
            for run in runs
        ]
        unit = curves[0].reports[0].estimate(metric).unit
        panels.append(Panel(titles.get(metric, f"held-out: {metric.replace('@', ' within turn ')}"), curves, unit))
    draw(
        panels,
        out,
        title="GRPO on sums with feedback: up to 2 turns (mt2), up to 4 (mt4; hot: too high a rate); bands are 95 %",
    )


def _write_reports(reports: dict[str, list[EvalReport]], folder: Path) -> int:
    folder.mkdir()
    for name, found in reports.items():
        for report in found:
            path = folder / f"{name}-{report.task}-step{report.progress.step:04d}.json"
            path.write_text(report_to_json(report, indent=2) + "\n", encoding="utf-8")
    return sum(map(len, reports.values()))


def compare(store: Store, reports: dict[str, list[EvalReport]], metric: str, meaning: str) -> str:
    """The difference between the strategies after training, paired by item, with its interval; empty without both."""
    last: dict[str, dict[str, EvalReport]] = {strategy: {} for strategy in (*STRATEGIES, HOT)}
    for name, found in reports.items():
        strategy, _, seed = name.partition("-")
        last[strategy][seed] = [report for report in found if report.task == "sums"][-1]
    seeds = sorted(set(last["mt2"]) & set(last["mt4"]))
    if not seeds:
        return ""
    by_seed = {seed: _differences(store, last["mt4"][seed], last["mt2"][seed], metric) for seed in seeds}
    shared = sorted(set.intersection(*(set(found) for found in by_seed.values())))
    means = {}
    for strategy in STRATEGIES:
        values = [last[strategy][seed].estimate(metric).value for seed in seeds]
        known = [value for value in values if value is not None]
        if len(known) < len(values) or not shared:
            return f"mt4 against mt2, {meaning}: not measured on both sides"
        means[strategy] = sum(known) / len(known)
    joint = mean_interval([sum(by_seed[seed][item] for seed in seeds) / len(seeds) for item in shared])
    each = ", ".join(f"{sum(by_seed[seed].values()) / len(by_seed[seed]):+z.3f}" for seed in seeds)
    return (
        f"mt4 against mt2, {meaning}: {means['mt4']:.3f} against {means['mt2']:.3f}, difference {joint.value:+z.3f}"
        f" [{joint.low:+z.3f}, {joint.high:+z.3f}]: {_verdict(joint)}. Paired over {len(shared)} held-out sums; the"
        f" interval covers the choice of sums and answers, not of seeds: seed by seed {each}."
    )


def _differences(store: Store, a: EvalReport, b: EvalReport, metric: str) -> dict[str, float]:
    """Score under `a` minus score under `b`, for each item that both have scored."""
    scores = [{s.item_id: s.value for s in store.scores(report.id, metric) if s.value is not None} for report in (a, b)]
    return {item: scores[0][item] - scores[1][item] for item in scores[0].keys() & scores[1].keys()}


def _verdict(interval: Interval) -> str:
    assert interval.low is not None
    assert interval.high is not None
    if interval.low > 0:
        return "mt4 is ahead by more than the sums' noise"
    if interval.high < 0:
        return "mt2 is ahead by more than the sums' noise"
    return "too close to call on so few sums"
