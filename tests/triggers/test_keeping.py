"""A checkpoint stays while it is evaluated, though retention deletes it; and nothing is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from midflight.triggers import CheckpointWatcher
from midflight.triggers.keeping import PREFIX, kept, tidy


def test_it_outlives_its_deletion_and_takes_no_room(tmp_path):
    path = tmp_path / "checkpoint-5"
    (path / "inner").mkdir(parents=True)
    (path / "inner" / "file").write_text("weights")
    with kept(path) as copy:
        assert copy.name == "checkpoint-5"
        assert (copy / "inner" / "file").samefile(path / "inner" / "file")
        shutil.rmtree(path)
        assert (copy / "inner" / "file").read_text() == "weights"
        assert CheckpointWatcher(tmp_path).poll() == []  # it is no checkpoint of its own
    assert list(tmp_path.iterdir()) == []


def test_a_single_file(tmp_path):
    path = tmp_path / "model-7.gguf"
    path.write_bytes(b"x")
    with kept(path) as copy:
        path.unlink()
        assert copy.read_bytes() == b"x"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gone", [True, False])
def test_where_it_cannot_be_kept_it_is_taken_as_it_is(tmp_path, monkeypatch, gone):
    path = tmp_path / "checkpoint-5"
    if not gone:
        path.mkdir()
        (path / "file").write_text("x")

        def refuse(*_, **__):
            raise OSError("no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    with kept(path) as copy:
        assert copy == path
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_holds_is_not(tmp_path):
    path = tmp_path / "checkpoint-5"
    path.mkdir()
    (path / "file").write_text("x")
    code = (
        "import os, sys, pathlib\nfrom midflight.triggers.keeping import kept\n"
        "with kept(pathlib.Path(sys.argv[1])):\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
    with kept(path) as mine:
        tidy(tmp_path)
        assert list(tmp_path.glob(f"{PREFIX}*")) == [mine.parent]
