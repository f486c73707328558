"""What the documentation says is true: its samples run, its tables are complete, its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT
from midflight import catalog
from midflight.cli import app
from midflight.tasks import TaskSpec, load_task

PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [one.name for one in (*app.registered_commands, *app.registered_groups)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readme_names_every_command_and_none_that_there_is_not():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `midflight (\w+)", text, re.MULTILINE)) == set(COMMANDS)


def test_every_command_that_is_written_down_exists():
    for page in PAGES:
        for word in re.findall(r"(?:^|`|    )midflight (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert word in COMMANDS, (page.name, word)


def test_there_is_a_page_for_each_stage():
    for stage in ("triggers", "dispatch", "tasks", "engines", "metrics", "store", "show"):
        assert (ROOT / "docs" / f"{stage}.md").is_file()
        doc = (catalog.folder(f"midflight.{stage}") / "__init__.py").read_text(encoding="utf-8")
        assert re.match(r'"""Stage \d+, \w', doc), stage


def test_the_loop_of_the_readme_is_that_of_the_package():
    import midflight

    loop = [line.split("  #")[0].rstrip() for line in midflight.__doc__.split("\n\n")[1].splitlines()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in loop:
        assert line.strip() in readme, line


def test_fields_of_tasks_that_the_page_names_exist():
    text = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    sample = tomllib.loads(text.split("```toml\n")[1].split("```")[0])
    assert set(sample) <= set(TaskSpec.model_fields)
    for kind in catalog.keys("midflight.tasks.kinds"):
        assert f"| `{kind}` |" in text
    for source in catalog.keys("midflight.tasks.sources"):
        assert f"`{source}`" in text
    from midflight.tasks._template import _environment

    for name in re.findall(r"Filters beyond Jinja2's: (.+?)\.", text)[0].replace("`", "").split(", "):
        assert name in _environment().filters


def test_config_fields_that_the_page_names_exist():
    from midflight.evaluator import EvaluatorConfig

    text = (ROOT / "docs" / "triggers.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) <= set(EvaluatorConfig.model_fields)


def test_every_toml_in_the_repository_is_a_task_or_the_project():
    for path in (ROOT / "examples").glob("*.toml"):
        assert load_task(str(path)).items
    for key in catalog.keys("midflight.tasks", ".toml"):
        assert catalog.summary("midflight.tasks", key)


EXAMPLES = {
    "plain_loop.py": r"step 120: counting: exact_match (0\.[5-9]|1)",
    "own_metric.py": r"metric='risk_score'.*method='bootstrap, 1000, seed 0'",
    "own_engine.py": r"value=1\.0",
    "torchrun.py": r"step 40: counting: exact_match[\s\S]*rank \d took longest; \d+% of the ranks' time",
    "fsdp2.py": r"step 0: reading: perplexity[\s\S]*step 20: reading: perplexity",
    "ray_cluster.py": r"step 60: counting: exact_match[\s\S]*actor 0: \d",
}
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, tmp_path):
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)
    launcher = TORCHRUN if name in ("torchrun.py", "fsdp2.py") else []
    done = subprocess.run(
        [sys.executable, *launcher, str(ROOT / "examples" / name)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # a cluster of its own: by itself Ray joins the newest one of this machine, which may be another test's
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local"},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(EXAMPLES[name], done.stdout), done.stdout


def test_nothing_of_one_machine_is_named():
    """Neither where this checkout is, nor whose machine it is on."""
    named = [f"{folder}/" for folder in (ROOT.parent, Path.home()) if folder != folder.parent]
    for path in [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), ROOT / "Makefile"]:
        text = path.read_text(encoding="utf-8")
        assert not [folder for folder in named if folder in text], path


def test_the_version_is_the_same_everywhere():
    import midflight

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == midflight.__version__
    assert f"## {midflight.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert Path(midflight.__file__).is_relative_to(ROOT / "src")
