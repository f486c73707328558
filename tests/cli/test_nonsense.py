"""Every command, given what makes no sense: one line that says so, exit code 2, no traceback, and nothing is written."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import typer.main

import midflight.cli
from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store import open_store
from midflight.store.base import Block
from midflight.tasks import load_task

TASK = 'source = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}"\ntarget = "a"\nmetrics = ["exact_match"]\n'

WORDS = {
    "act": ["flow.toml"],
    "audit": [],
    "catalog": [],
    "compare": ["a", "b"],
    "diagnose": ["a"],
    "eval": ["fake:4", "-t", "sums.toml"],
    "export": ["a", "--out", "exported"],
    "flips": ["a"],
    "gate": ["policy.toml", "--candidate", "a"],
    "groups": ["a", "b"],
    "import": ["log.jsonl"],
    "plot": ["a", "-m", "exact_match", "-o", "picture.svg"],
    "power": ["-t", "sums", "--detect", "0.1"],
    "report": ["a", "-o", "report.html"],
    "runs": [],
    "savings": ["a"],
    "scaling": ["a", "b"],
    "schema": ["report"],
    "serve": ["--port", "0"],
    "show": ["a"],
    "store backup": ["copy.db"],
    "store check": [],
    "store compact": [],
    "sweep": ["a", "b", "-m", "loss"],
    "top": ["--once"],
    "trend": ["a"],
    "watch": ["checkpoints", "-t", "sums.toml", "--once", "--interval", "0.01"],
}
"""A call of each command that makes sense in the folder below; `demo` trains, and is left out."""
READS_A_RUN = [name for name, words in WORDS.items() if words[:1] == ["a"]]
WRITES = {"act", "eval", "import", "watch"}
NEEDS_NO_STORE = {"catalog", "schema"}

NONSENSE = [
    "", "nope", "/dev/null/x", "nan", "inf", "-inf", "-1", "1e999", "9" * 400, "x" * 5000, "\udc80", "ünï☃", "a\nb", "a@",
    "@", "a@99", "[", "(", "(.*", "=", "a=b", "step=", "..", "~nobody/x", "%s{0}",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two runs with a series and two evaluations, and a file for each command that reads one."""
    folder = tmp_path_factory.mktemp("nonsense")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"q": f"{n}+1=", "a": n + 1}) + "\n" for n in range(6)))
    (folder / "sums.toml").write_text(TASK)
    (folder / "log.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
    rule = '[[rules]]\ntask = "sums"\nmetric = "exact_match"\nat_least = 0.1\n'
    (folder / "policy.toml").write_text(f'name = "p"\n{rule}')
    run = json.dumps([sys.executable, "-c", ""])
    (folder / "flow.toml").write_text(f'[[steps]]\nname = "s"\nkind = "command"\nrun = {run}\nwhen = "always"\n')
    (folder / "checkpoints").mkdir()
    store = open_store(str(folder / "midflight.db"))
    task, steps = load_task(str(folder / "sums.toml")), np.arange(0, 100, 2)
    for name, workers in (("a", 1), ("b", 2)):
        with Run("p", name, store=store, config={"lr": workers}) as run:
            for step in (0, 10):
                engine = Fake(lambda request, step=step: str(step + 4), version=str(step))
                evaluate_checkpoint(task, engine, run=run, progress=Progress(step))
            losses = 3 * np.exp(-steps / 50)
            store.append_points(run.id, 1, [Block(("loss",), steps, 1.7e9 + steps / workers, losses[None])])
    store.backup(folder / "written.db")
    store.close()
    return folder


@pytest.fixture
def call(folder, capsys, monkeypatch):
    """Exit code, standard output and standard error of a command in that folder."""
    monkeypatch.chdir(folder)

    def call(*words: str) -> tuple[int, str, str]:
        if words and words[0] in WRITES and "--store" not in words:
            words = (*words, "--store", "written.db")  # the other one is as all tests know it
        monkeypatch.setattr(sys, "argv", ["midflight", *words])
        with pytest.raises(SystemExit) as ended:
            midflight.cli.main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    return call


OF_OPTIONS = ["", "nope", "nan", "-1", "9" * 400, "x" * 5000, "\udc80"]
"""Of these, what a value is tried with: there are many options."""


def commands() -> dict[str, object]:
    """Every command by its words."""
    found = {}
    for name, command in typer.main.get_command(midflight.cli.app).commands.items():
        inner = getattr(command, "commands", None)
        found |= {name: command} if inner is None else {f"{name} {one}": inner[one] for one in inner}
    return found


def options(command: object) -> list[str]:
    """Options of a command that take a value; what listens at a port is left alone."""
    taking = [one for one in command.params if one.param_type_name == "option" and not one.is_flag]
    names = [next((name for name in one.opts if name.startswith("--")), one.opts[0]) for one in taking]
    return [name for name in names if name != "--help"]


def test_every_command_is_tried():
    assert sorted([*WORDS, "demo"]) == sorted(commands())


def told_in_a_line(found: tuple[int, str, str], words: list[str]) -> None:
    """That a command either did what it was told, or says in a line why not."""
    code, _, err = found
    assert code in (0, 1, 2, 3), (words, err)
    assert "Traceback" not in err, words
    assert "internal error" not in err, (words, err)
    if code == 2:
        lines = [line for line in err.splitlines() if not line.startswith("midflight: loading ")]
        assert len(lines) == 1, (words, err)
        assert lines[0].startswith("midflight: "), (words, err)
        assert len(lines[0]) < 4100, words


@pytest.mark.parametrize("command", WORDS)
def test_nonsense_in_place_of_the_first_word(call, command):
    words = WORDS[command]
    for nonsense in NONSENSE if words and not words[0].startswith("-") else ["nope"]:
        tried = [*command.split(), nonsense, *words[1:]]
        found = call(*tried)
        told_in_a_line(found, tried)
        if nonsense in ("", "nope", "x" * 5000):
            assert found[0] == 2 or command in ("eval", "store backup"), (tried, found)


@pytest.mark.parametrize("command", [name for name in WORDS if name != "serve"])
def test_nonsense_as_the_value_of_each_option(call, command):
    for option in options(commands()[command]):
        for nonsense in OF_OPTIONS:
            tried = [*command.split(), *WORDS[command], option, nonsense]
            if option in ("--out", "-o", "--out-dir", "--store", "--stop-file") and nonsense in ("nope", "nan"):
                continue  # a name as good as any
            told_in_a_line(call(*tried), tried)
    assert call(*command.split(), *WORDS[command], "--no-such-option")[0] == 2


@pytest.mark.parametrize("command", READS_A_RUN)
def test_a_run_that_is_not_there(call, command):
    code, out, err = call(*command.split(), "nobody", *WORDS[command][1:])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nobody" in err
    assert "there are: " in err


def without_store(store: str) -> list[list[str]]:
    return [[*name.split(), *WORDS[name], "--store", store] for name in WORDS if name not in NEEDS_NO_STORE | WRITES]


@pytest.mark.parametrize("words", without_store("missing.db"), ids=" ".join)
def test_a_store_that_is_not_there_is_not_made(call, words):
    code, out, err = call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "no store at " in err
    assert "name it with --store or $MIDFLIGHT_STORE" in err
    assert not Path("missing.db").exists()


STORES = {
    "folder": ("no store at|cannot be opened", lambda path, whole: path.mkdir(exist_ok=True)),
    "text": ("it is no SQLite file", lambda path, whole: path.write_text("hello" * 100)),
    "cut": ("it is damaged", lambda path, whole: path.write_bytes(whole[:30_000])),
    "newer": ("store version; got 99; allowed: up to", lambda path, whole: _newer(path, whole)),
    "foreign": ("SQLite file of another program", lambda path, whole: _foreign(path)),
}


def _newer(path: Path, whole: bytes) -> None:
    path.write_bytes(whole)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE IF NOT EXISTS theirs (x)")


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("command", [name for name in WORDS if name not in NEEDS_NO_STORE])
def test_a_store_that_is_none(call, folder, command, kind):
    said, make = STORES[kind]
    path = Path(f"{kind}.db")
    if not path.exists():
        make(path, (folder / "midflight.db").read_bytes())
    code, out, err = call(*command.split(), *WORDS[command], "--store", str(path))
    if command == "power" and code != 2:
        return
    assert (code, out, err.count("\n")) == (2, "", 1), (out, err)
    assert any(one in err for one in said.split("|")), err


def test_an_option_that_is_given_twice_counts_once(call):
    assert call("show", "a", "--task", "nope", "--task", "sums", "--json")[0] == 0
    assert call("runs", "--last", "1", "--last", "2")[0] == 0


def test_help_is_shown_as_it_is(call):
    code, out, err = call()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: midflight [OPTIONS] COMMAND [ARGS]...\n")
    assert call("store")[2].startswith("Usage: midflight store [OPTIONS]")
    code, out, err = call("store", "check", "--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: midflight store check [OPTIONS]\n")


# -- what only a process of its own can show ---------------------------------------------------------------------------


def start(folder: Path, *words: str, **options) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "midflight", *words]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(
    "words",
    [["show", "a"], ["runs", "--json"], ["catalog", "arc"], ["schema", "report"], ["--help"], ["show", "a", "--items"]],
    ids=" ".join,
)
def test_a_reader_that_has_read_enough_is_no_failure(folder, words):
    read, write = os.pipe()
    os.close(read)  # nobody reads, from the first character on
    with start(folder, *words, stdout=write) as process:
        os.close(write)
        err = process.stderr.read()
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("words", [["runs"], ["runs", "--json"], ["catalog"], ["store", "check"]], ids=" ".join)
def test_a_full_disk_is_told(folder, words):
    with Path("/dev/full").open("w") as full, start(folder, *words, stdout=full) as process:
        err = process.stderr.read()
    assert (process.returncode, err) == (2, b"midflight: No space left on device\n")


@pytest.mark.parametrize("words", ["runs", "runs --json", "catalog"])
def test_closed_streams_are_nobodys_business(folder, words):
    command = f"{sys.executable} -m midflight {words} >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], cwd=folder).returncode == 0


def test_ctrl_c_is_a_line_and_130(folder):
    words = ["watch", "checkpoints", "-t", "sums.toml", "--interval", "60", "--run", "w", "--store", "own.db"]
    with start(folder, *words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        assert b"watching checkpoints" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        timer = threading.Timer(60, process.kill)
        timer.start()
        _, err = process.communicate()
        timer.cancel()
    assert process.returncode == 130
    assert err == b"midflight: stopped; the same command goes on where it stopped\n"
