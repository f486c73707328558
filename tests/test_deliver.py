"""docs/deliver.md, line by line: a good checkpoint deploys itself, and a bad one cannot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

PAGE = (ROOT / "docs" / "deliver.md").read_text(encoding="utf-8")
EXIT_CODES = {"midflight gate policy.toml --candidate sums@920": 1}


def test_the_files_on_the_page_are_those_of_the_example():
    files = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert files == [(ROOT / "examples" / "deliver" / name).read_text() for name in ("policy.toml", "release.toml")]


def test_every_line_does_what_the_page_says(tmp_path):
    for file in (ROOT / "examples" / "deliver").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, words in (("midflight", "-m midflight"), ("python", "")):
        (bin_ / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (bin_ / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    commands = re.findall(r"^    ((?:python|midflight) .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 7
    said = {}
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        expected = next((code for start, code in EXIT_CODES.items() if command.startswith(start)), 0)
        assert done.returncode == expected, (command, done.stdout, done.stderr)
        said[command.split(" --")[0]] = done.stdout + done.stderr

    production = tmp_path / "production"
    assert production.is_symlink()
    assert production.resolve() == (tmp_path / "checkpoints" / "checkpoint-900").resolve()
    outcomes = [line.split(":")[0] for line in (tmp_path / "told.txt").read_text().splitlines()]
    assert [outcomes[0], *outcomes[1:3]] == ["fail", "pass", "fail"]
    assert sorted(path.name for path in Path(tmp_path, "verdict").iterdir()) == [
        "junit.xml", "summary.md", "verdict.json",
    ]  # fmt: skip
    assert "checkpoint-900" in said["midflight audit"]
    assert (tmp_path / "verdict" / "summary.md").read_text().startswith("### FAIL")
