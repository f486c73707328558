"""What is released: the files of a checkpoint that make the model, known by a hash over what is in them."""

from __future__ import annotations

import fnmatch
import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from midflight.errors import ConfigError

TRAINING_STATE = (
    "optimizer.*",
    "optimizer_*",
    "scheduler.*",
    "rng_state*",
    "trainer_state.json",
    "training_args.bin",
    "global_step*",
    "pytorch_model_fsdp*",
    "scaler.pt",
    "latest",
    "zero_to_fp32.py",
)
"""Files and folders of a checkpoint by which training goes on, as the HF Trainer, DeepSpeed and FSDP name them: no part
of the model, often larger than it, and pickled."""


def model_files(checkpoint: Path) -> list[Path]:
    """The files of the model, sorted by their path; a GGUF file is its own.

    Raises:
        ConfigError: If there is none.
    """
    if checkpoint.is_file():
        return [checkpoint]
    found = [
        path
        for path in sorted(checkpoint.rglob("*"))
        if path.is_file() and not _is_training_state(path.relative_to(checkpoint))
    ]
    if not found:
        what = "no files of a model in it" if checkpoint.is_dir() else "no such file or folder"
        raise ConfigError(f"checkpoint {checkpoint}: {what}")
    return found


def _is_training_state(path: Path) -> bool:
    first = path.parts[0]
    return first.startswith(".") or any(fnmatch.fnmatch(first, pattern) for pattern in TRAINING_STATE)


def weights_hash(checkpoint: Path) -> str:
    """SHA-256 over names and contents of a model's files: over what `sha256sum` prints for them, sorted.

    Raises:
        ConfigError: If there is no model, or a file of it cannot be read.
    """
    files = model_files(checkpoint)
    root = checkpoint if checkpoint.is_dir() else checkpoint.parent
    try:
        with ThreadPoolExecutor(4, thread_name_prefix="midflight-hash") as threads:  # hashing lets the others run
            digests = list(threads.map(_file_hash, files))
    except OSError as error:
        raise ConfigError(f"checkpoint {checkpoint}: {error.filename}: {error.strerror or error}") from None
    if checkpoint.is_file():
        return digests[0]  # wherever it lies and however it is called
    lines = [f"{digest}  {path.relative_to(root)}\n" for digest, path in zip(digests, files, strict=True)]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
