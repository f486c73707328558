"""Writes a GGUF model as a folder of safetensors: python convert_gguf.py FILE FOLDER."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(source: Path, folder: Path) -> None:
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    read = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # it is plain numbers now
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**where).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
