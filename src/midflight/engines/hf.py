"""Any causal or sequence-classification model of transformers: an object from the training loop, a folder, a GGUF file.

Batches hold a bounded number of tokens, sorted by length. The head is applied only where log-probabilities are needed.
A model in training is put back as it was after every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from midflight.engines.base import BaseEngine
from midflight.errors import ConfigError, EngineError, missing_extra, shorten
from midflight.records import Output, Request, RequestKind, Sampling

try:
    import torch

    from midflight.engines._hf_batches import halve_on_oom, pack
    from midflight.engines._hf_generate import Prompted, generate
    from midflight.engines._hf_mode import evaluating
    from midflight.engines._hf_score import Scored, rewards, scores
    from midflight.engines._hf_text import Encoder, Row, context_length, digest, tokenizer_digest
    from midflight.engines._weights import weights_digest
except ImportError as error:
    raise missing_extra("the hf engine", "hf", error) from None


class HF(BaseEngine):
    """A transformers model in this process.

    Args:
        model: A causal LM or a sequence-classification model with one label; may be wrapped in DDP, compiled or a PEFT
            model. It stays where it is, with the numeric type that it has.
        tokenizer: Its tokenizer.
        tokens_per_batch: Tokens in a batch at most, padding and new tokens included.
        max_length: Tokens in a sequence at most; None = what the model's config says.
        chat: Whether prompts may be messages; None = if the tokenizer has a chat template.
        name_or_path: What the fingerprint calls the model; None = what its config says.

    Raises:
        ConfigError: If the model or tokenizer cannot be used.
    """

    name: ClassVar[str] = "hf"
    provides = frozenset({"entropy"})

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        tokens_per_batch: int = 16_384,
        max_length: int | None = None,
        chat: bool | None = None,
        name_or_path: str | None = None,
    ) -> None:
        if tokens_per_batch < 1:
            raise ConfigError("tokens_per_batch", got=tokens_per_batch, allowed="a number of tokens from 1")
        self.model = unwrap(model)
        if not hasattr(self.model, "config"):
            raise ConfigError("not a transformers model: it has no config", got=type(self.model).__name__)
        if tokenizer is None or not hasattr(tokenizer, "encode"):
            raise ConfigError("not a tokenizer", got=tokenizer)
        self.tokenizer = tokenizer
        self.tokens_per_batch = tokens_per_batch
        self.chat = bool(getattr(tokenizer, "chat_template", None)) if chat is None else chat
        self.max_length = max_length or context_length(self.model, tokenizer)
        self.encoder = Encoder(tokenizer, self.max_length, self.chat, _num_embeddings(self.model))
        self.path = name_or_path or str(getattr(self.model.config, "_name_or_path", "") or type(self.model).__name__)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        dtype: str = "auto",
        device: str | None = None,
        name_or_path: str | None = None,
        **options: Any,
    ) -> HF:
        """The model in a folder, or in a GGUF file.

        Args:
            path: Folder with `config.json`, safetensors and tokenizer; or a `.gguf` file.
            dtype: ``float32``, ``bfloat16``, ``float16``, or ``auto`` = as it is stored (GGUF: float32).
            device: ``cuda``, ``cpu``, …; None = the accelerator if there is one.
            name_or_path: What fingerprint and messages call it; None = the path.
            options: For the constructor.

        Raises:
            ConfigError: If there is no model that can be read.
        """
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

        where, name = Path(path).expanduser(), name_or_path or str(path)
        source, number_type = _pretrained_arguments(where), _dtype(dtype, where)
        try:
            tokenizer = AutoTokenizer.from_pretrained(**source)
            auto: Any = AutoModelForCausalLM
            if "gguf_file" in source:  # such a file holds a language model, and is slow to read
                source = {**source, **_dense()}
            else:
                kinds = " ".join(AutoConfig.from_pretrained(**source).architectures or ())
                auto = AutoModelForSequenceClassification if "SequenceClassification" in kinds else auto
            model = auto.from_pretrained(**source, dtype=number_type, use_safetensors=True)
        except Exception as error:  # a damaged file raises whatever its reader happens to stumble over
            reason = str(error).strip().split("\n", 1)[0]
            raise ConfigError(f"{name}: cannot be loaded as a model: {reason}") from error
        model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        return cls(model.eval(), tokenizer, name_or_path=name, **options)

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> frozenset[RequestKind]:
        """Language models score and generate; sequence-classification models with one label give rewards."""
        if "SequenceClassification" in type(self.model).__name__:
            return frozenset({"reward"} if self.model.config.num_labels == 1 else ())
        can_generate = getattr(self.model, "can_generate", None)
        return frozenset({"loglikelihood", "generate"} if can_generate is not None and can_generate() else ())

    def advice(self, capability: RequestKind) -> str:
        """What kind of model is needed."""
        if capability == "reward":
            return "a reward model is a sequence-classification model with num_labels=1"
        return "this needs a causal language model (AutoModelForCausalLM)"

    def fingerprint(self) -> dict[str, Any]:
        """Model class, numeric type, limits, and digests of tokenizer and chat template."""
        return {
            "engine": self.name,
            "model": self.path,
            "class": type(self.model).__name__,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "chat": self.chat,
            "max_length": self.max_length,
            "tokenizer": tokenizer_digest(self.tokenizer),
            "template": digest(getattr(self.tokenizer, "chat_template", None)) if self.chat else None,
        }

    def weights(self) -> str:
        """A digest of every bit of the weights."""
        with torch.no_grad():
            return weights_digest(self.model)

    def modules(self) -> list[Any]:
        """The model."""
        return [self.model]

    def idle(self) -> None:
        """A pass on one token; every model knows token 0."""
        with evaluating(self.model):
            self.model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=self.model.device), use_cache=False)

    # -- what it does ------------------------------------------------------------------------------------------------

    def run(self, requests: Sequence[Request]) -> Iterator[Output]:
        """Answers requests, longest first, in batches by token budget."""
        kinds = {request.kind for request in requests}
        for kind in sorted(kinds):
            self.require(kind, "a request")
            chosen = [request for request in requests if request.kind == kind]
            answer = {"loglikelihood": self._score, "generate": self._generate, "reward": self._reward}[kind]
            yield from answer(chosen)

    def _score(self, requests: list[Request]) -> Iterator[Output]:
        rows: list[Row] = []
        for request in requests:
            found = _encoded(request, self.encoder.rows)
            if isinstance(found, Output):
                yield found
            else:
                rows += found
        # rows with the same input are computed once: the letters of a multiple-choice question share their context
        unique: dict[tuple[int, ...], _Same] = {}
        for row in rows:
            unique.setdefault(row.tokens, _Same(row.tokens, [])).rows.append(row)
        pending: dict[str, list[Scored | None]] = {}
        num_rows = {request.id: 0 for request in requests}
        for row in rows:
            num_rows[row.request.id] += 1
        for batch in pack(list(unique.values()), self.tokens_per_batch):
            done = self._guarded(batch, lambda b: scores(self.model, b), lambda same: [None] * len(same.rows))
            for same, found in zip(batch, done, strict=True):
                for row, scored in zip(same.rows, found, strict=True):
                    parts = pending.setdefault(row.request.id, [])
                    parts.append(scored)
                    if len(parts) == num_rows[row.request.id]:
                        yield _joined(row, pending.pop(row.request.id), self.encoder)

    def _generate(self, requests: list[Request]) -> Iterator[Output]:
        by_sampling: dict[Sampling, list[Prompted]] = {}
        for request in requests:
            found = _encoded(request, self._prompt)
            if isinstance(found, Output):
                yield found
            else:
                same = by_sampling.setdefault(request.sampling or Sampling(), [])
                same.append(Prompted(request, tuple(found)))
        for sampling, prompted in by_sampling.items():
            for batch in pack(prompted, self.tokens_per_batch, extra=sampling.max_tokens):
                yield from self._guarded(
                    batch, lambda b, s=sampling: generate(self.model, self.tokenizer, b, s), _out_of_memory
                )

    def _prompt(self, request: Request) -> list[int]:
        return self.encoder.prompt(request.prompt, (request.sampling or Sampling()).max_tokens)

    def _reward(self, requests: list[Request]) -> Iterator[Output]:
        prompted = []
        for request in requests:
            found = _encoded(request, lambda r: self.encoder.conversation(r.prompt))
            if isinstance(found, Output):
                yield found
            else:
                prompted.append(Prompted(request, tuple(found)))
        # without a padding token in its config such a model refuses more than one sequence at a time
        budget = self.tokens_per_batch if self.model.config.get_text_config().pad_token_id is not None else 1
        for batch in pack(prompted, budget):
            yield from self._guarded(batch, lambda b: rewards(self.model, b), _out_of_memory)

    def _guarded(self, batch: list[Any], compute: Any, give_up: Any) -> list[Any]:
        with evaluating(self.model):
            return halve_on_oom(batch, compute, give_up)


Tokens = TypeVar("Tokens")


def _encoded(request: Request, encode: Callable[[Request], Tokens]) -> Tokens | Output:
    """Tokens of a request, or the output that says why there are none."""
    try:
        return encode(request)
    except EngineError as error:
        return Output(request.id, error=error.message)
    except Exception as error:  # tokenizers and chat templates are foreign code
        reason = shorten(f"{type(error).__name__}: {error}")
        return Output(request.id, error=f"the tokenizer fails on it: {reason}")


@dataclass(frozen=True, slots=True)
class _Same:
    """Rows with the same input tokens."""

    tokens: tuple[int, ...]
    rows: list[Row]


def _joined(row: Row, parts: Sequence[Scored | None], encoder: Encoder) -> Output:
    """The output of a request from the scores of its windows."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return Output(row.request.id, error=OUT_OF_MEMORY)
    num_tokens = sum(part.num_tokens for part in found)
    return Output(
        row.request.id,
        logprob=sum(part.logprob for part in found),
        greedy=all(part.greedy for part in found),
        num_tokens=num_tokens,
        num_prompt_tokens=max(0, len(row.tokens) + 1 - len(row.targets)) if row.request.prompt else 0,
    )


OUT_OF_MEMORY = "out of memory, even alone in its batch"


def _out_of_memory(prompted: Prompted) -> Output:
    return Output(prompted.request.id, error=OUT_OF_MEMORY)


def _num_embeddings(model: Any) -> int | None:
    """Tokens that have an embedding; None where that cannot be told."""
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):
        return None


def unwrap(model: Any) -> Any:
    """The model inside DDP, `torch.compile` and other wrappers that keep it as `module` or `_orig_mod`."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel):
            model = model.module
        else:
            return model


def _pretrained_arguments(path: Path) -> dict[str, Any]:
    if path.suffix == ".gguf" and path.is_file():
        try:
            import gguf  # noqa: F401
        except ImportError as error:
            raise missing_extra("a GGUF file", "hf", error) from None
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    if not (path / "config.json").is_file():
        raise ConfigError(f"{path}: no model: no config.json in it", allowed="a model folder or a .gguf file")
    if not list(path.glob("*.safetensors")):
        raise ConfigError(f"{path}: no *.safetensors in it", hint="pickled weights are not loaded; convert them")
    return {"pretrained_model_name_or_path": str(path)}


def _dense() -> dict[str, Any]:
    """Has a GGUF file unpacked as it is loaded: packed, it would compute in float32, whatever was asked for."""
    try:
        from transformers import GgufConfig
    except ImportError:  # before it could leave them packed
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def _dtype(name: str, path: Path) -> Any:
    if name == "auto":
        return torch.float32 if path.suffix == ".gguf" else "auto"
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ConfigError("dtype", got=name, allowed="auto, float32, bfloat16, float16")
    return found
