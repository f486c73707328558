"""Stage 4, outputs: takes all requests of a task, gives their outputs as they finish; between task and metric.

`hf` runs a transformers model in this process, `openai` asks a server, `ray` has copies of an engine on a cluster,
`fake` answers from a script. Names are imported lazily: naming `HF` is what imports torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from midflight.engines.base import BaseEngine
from midflight.engines.fake import Fake
from midflight.errors import ConfigError

if TYPE_CHECKING:
    from midflight.engines.hf import HF
    from midflight.engines.openai import OpenAI
    from midflight.engines.ray import Ray

__all__ = ["HF", "BaseEngine", "Fake", "OpenAI", "Ray", "open_engine"]


def __getattr__(name: str) -> Any:
    if name == "HF":
        from midflight.engines.hf import HF

        return HF
    if name == "OpenAI":
        from midflight.engines.openai import OpenAI

        return OpenAI
    if name == "Ray":
        from midflight.engines.ray import Ray

        return Ray
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open_engine(model: str, **options: Any) -> BaseEngine:
    """The engine for a model as the command line names it.

    Args:
        model: A folder or GGUF file (`hf`), ``openai:URL#model`` (a server), or ``fake:`` or ``fake:text``.
        options: For the engine.

    Raises:
        ConfigError: If it is none of these.
    """
    kind, _, rest = model.partition(":")
    if kind == "fake":
        return Fake(answers=rest, **options)
    if kind == "openai":
        from midflight.engines.openai import OpenAI

        url, _, name = rest.partition("#")
        return OpenAI(url, name or None, **options)
    if not Path(model).expanduser().exists():
        raise ConfigError(
            f"model {model!r}: no such file or folder",
            allowed="a model folder, a .gguf file, openai:URL#model, or fake:text",
        )
    from midflight.engines.hf import HF

    return HF.load(model, **options)
