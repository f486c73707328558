"""Checkpoints are given once, in step order, and none before it is wholly written."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from midflight.errors import ConfigError
from midflight.triggers import CheckpointWatcher
from midflight.triggers.checkpoints import incomplete, step_of


def write(folder: Path, step: int, scale: float = 1.0) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    save_file({"w": np.full((4, 4), scale, np.float32)}, path / "model.safetensors")
    return path


def test_each_one_once_and_in_step_order(tmp_path):
    watcher = CheckpointWatcher(tmp_path / "out")
    assert watcher.poll() == []  # the folder is not there yet
    for step in (100, 20, 3):
        write(tmp_path / "out", step)
    assert watcher.poll() == []  # nothing is known to be at rest yet
    assert [c.step for c in watcher.poll()] == [3, 20, 100]
    assert watcher.poll() == []
    write(tmp_path / "out", 200)
    watcher.poll()
    assert [c.step for c in watcher.poll()] == [200]


def test_a_half_written_one_is_left_alone_until_it_is_complete(tmp_path):
    path = write(tmp_path, 10)
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[:-7])
    watcher = CheckpointWatcher(tmp_path)
    assert [watcher.poll(), watcher.poll()] == [[], []]
    assert watcher.waiting == {path: "model.safetensors is half-written"}
    (path / "model.safetensors").write_bytes(whole)
    assert watcher.poll() == []
    assert [c.step for c in watcher.poll()] == [10]


def test_one_whose_files_still_change_is_left_alone(tmp_path):
    path = write(tmp_path, 10)
    watcher = CheckpointWatcher(tmp_path)
    watcher.poll()
    (path / "tokenizer.json").write_text("{}")  # written after the weights
    assert watcher.poll() == []
    assert watcher.waiting == {path: "files are still changing"}
    assert len(watcher.poll()) == 1


def test_files_beside_the_weights_do_not_make_it_new_but_new_weights_do(tmp_path):
    path = write(tmp_path, 10)
    watcher = CheckpointWatcher(tmp_path)
    watcher.poll()
    assert len(watcher.poll()) == 1
    (path / "optimizer.pt").write_bytes(b"x")
    assert [watcher.poll(), watcher.poll()] == [[], []]
    shutil.rmtree(path)
    write(tmp_path, 10, scale=2.0)
    watcher.poll()
    assert len(watcher.poll()) == 1


def test_all_shards_of_an_index_have_to_be_there(tmp_path):
    path = write(tmp_path, 5)
    (path / "model.safetensors").rename(path / "model-1.safetensors")
    index = {"weight_map": {"w": "model-1.safetensors", "v": "model-2.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert incomplete(path) == "model-2.safetensors is missing"
    shutil.copy(path / "model-1.safetensors", path / "model-2.safetensors")
    assert incomplete(path) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: (p / "config.json").unlink(), "no config.json"),
        (lambda p: (p / "config.json").write_text('{"a":'), "a JSON file is half-written"),
        (lambda p: (p / "model.safetensors").unlink(), "no *.safetensors"),
        (lambda p: (p / "model.safetensors").write_bytes(b""), "model.safetensors is half-written"),
        (lambda p: (p / "model.safetensors").write_bytes(b"\xff" * 64), "model.safetensors is half-written"),
    ],
)
def test_why_it_cannot_be_read(tmp_path, change, reason):
    path = write(tmp_path, 1)
    change(path)
    assert incomplete(path) == reason


@pytest.mark.parametrize(
    ("name", "step"),
    [("checkpoint-500", 500), ("global_step500", 500), ("epoch1-step200", 200), ("iter_0001000", 1000)],
)
def test_the_step_is_the_last_number_in_the_name(name, step):
    assert step_of(Path(name)) == step


def test_folders_without_a_number_and_temporary_ones_are_no_checkpoints(tmp_path):
    write(tmp_path, 1).rename(tmp_path / "final")
    write(tmp_path, 2).rename(tmp_path / "tmp-checkpoint-2")
    watcher = CheckpointWatcher(tmp_path)
    assert [watcher.poll(), watcher.poll()] == [[], []]


def test_one_that_is_removed_while_we_look_is_no_error(tmp_path, monkeypatch):
    path = write(tmp_path, 1)
    watcher = CheckpointWatcher(tmp_path)
    watcher.poll()
    real = Path.stat

    def vanish(self, **options):
        if self.suffix == ".safetensors":
            shutil.rmtree(path, ignore_errors=True)
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", vanish)
    assert watcher.poll() == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"[" * 100_000),
        ("config.json", b"\xff\xfe"),
        ("model.safetensors", (2).to_bytes(8, "little") + b"[]"),
        ("model.safetensors", (9).to_bytes(8, "little") + b'{"w": 1} '),
        ("model.safetensors", (2**63).to_bytes(8, "little")),
        ("model.safetensors.index.json", b'{"weight_map": 3}'),
        ("model.safetensors.index.json", b'{"weight_map": {"w": 3}}'),
        ("model.safetensors.index.json", b"[]"),
    ],
)
def test_what_is_no_checkpoint_waits_and_hides_no_other(tmp_path, file, content):
    broken = write(tmp_path, 10)
    (broken / file).write_bytes(content)
    write(tmp_path, 20)
    watcher = CheckpointWatcher(tmp_path)
    watcher.poll()
    assert [c.step for c in watcher.poll()] == [20]
    assert list(watcher.waiting) == [broken]


def test_a_loop_of_links_waits(tmp_path):
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "config.json").symlink_to("config.json")
    watcher = CheckpointWatcher(tmp_path)
    assert (watcher.poll(), watcher.poll()) == ([], [])
    assert len(watcher.waiting) == 1


def test_names_that_are_no_text_or_no_step(tmp_path):
    write(tmp_path, 10**19)
    shutil.copytree(write(tmp_path, 5), tmp_path / os.fsdecode(b"checkpoint-\xff-7"))
    watcher = CheckpointWatcher(tmp_path)
    watcher.poll()
    assert [c.step for c in watcher.poll()] == [5]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        CheckpointWatcher(tmp_path / "f")
