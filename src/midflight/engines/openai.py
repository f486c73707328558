"""Any OpenAI-compatible server: vLLM, SGLang, llama.cpp, `transformers serve`; many requests in flight, bounded.

Requests and answers are the OpenAI SDK's, retries and time limits our own. Log-likelihoods need a server that returns
log-probabilities of the prompt (`echo` with `logprobs`: vLLM, SGLang, llama-cpp-python); some servers accept these
options and ignore them, so what comes back is checked, never assumed.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, ClassVar, TypeVar
from urllib.parse import SplitResult, urlsplit

from midflight.engines._openai_logprobs import PROBE, EchoError, check_alignment, score_echo
from midflight.engines.base import BaseEngine
from midflight.errors import ConfigError, EngineDiedError, EngineError, missing_extra, shorten
from midflight.records import Output, Request, RequestKind, Sampling

try:
    import openai

    from midflight.engines._openai_retry import Retry
except ImportError as error:
    raise missing_extra("the openai engine", "openai", error) from None

Result = TypeVar("Result")

_FATAL = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)


class OpenAI(BaseEngine):
    """A model behind an OpenAI-compatible HTTP server.

    Args:
        url: Base URL, e.g. ``http://localhost:8000/v1``; ``/v1`` is added where no path is given.
        model: Model id; None = the first that the server lists.
        api_key: None = ``$OPENAI_API_KEY``, or none.
        chat: Whether the model has a chat template, so that prompts are chat messages.
        concurrency: Requests in flight at most.
        timeout_s: Seconds that one try of one request may take, to the last byte.
        retries: Tries after the first, with exponential back-off: on time-outs, lost connections, 408, 409, 429, 5xx.
        give_up_after: Failed requests in a row after which the server is taken for dead.

    Raises:
        ConfigError: If an argument is wrong.
    """

    name: ClassVar[str] = "openai"

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        api_key: str | None = None,
        chat: bool = True,
        concurrency: int = 32,
        timeout_s: float = 600.0,
        retries: int = 5,
        give_up_after: int = 20,
    ) -> None:
        parts = _checked_url(url)
        limits = {"concurrency": concurrency, "timeout_s": timeout_s, "give_up_after": give_up_after}
        for name, value in limits.items():
            if not value > 0:
                raise ConfigError(name, got=value, allowed="a number above 0")
        if retries < 0:
            raise ConfigError("retries", got=retries, allowed="a number from 0")
        self.url = url.rstrip("/") if parts.path.strip("/") else f"{url.rstrip('/')}/v1"
        self.chat = chat
        self.concurrency, self.timeout_s, self.give_up_after = concurrency, timeout_s, give_up_after
        self._retry = Retry(retries, timeout_s)
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or "none"
        self._model = model

    @cached_property
    def model(self) -> str:
        """Model id.

        Raises:
            EngineError: If none was given and the server lists none.
        """
        if self._model is not None:
            return self._model
        try:
            listed = _blocking(self._list_models())
        except Exception as error:  # any answer that is no list of models, in all the ways that servers have
            raise EngineError(
                f"{self.url}: cannot list its models: {_reason(error)}", hint="is the server running? is the URL right?"
            ) from None
        if not listed:
            raise EngineError(f"{self.url}: lists no model", hint="name one: openai:URL#model")
        return str(listed[0])

    async def _list_models(self) -> list[Any]:
        async with self._client(30) as client:
            page = await Retry(1, 30)(client.models.list)
        return [entry.id for entry in page.data or ()]

    def _client(self, timeout_s: float) -> Any:
        return openai.AsyncOpenAI(base_url=self.url, api_key=self._key, max_retries=0, timeout=timeout_s)

    # -- what it is --------------------------------------------------------------------------------------------------

    @cached_property
    def capabilities(self) -> frozenset[RequestKind]:
        """It generates; it scores if the server really returns log-probabilities of the prompt, which is tried."""
        kinds: set[RequestKind] = {"generate"}
        try:
            answer = _blocking(self._probe())
            score_echo(answer, *PROBE)
            check_alignment(answer)
            kinds.add("loglikelihood")
        except (openai.OpenAIError, EchoError, TimeoutError, ValueError, TypeError, AttributeError) as error:
            self._no_echo = _reason(error)
        return frozenset(kinds)

    async def _probe(self) -> Any:
        timeout_s, arguments = min(self.timeout_s, 60), self._echo_arguments("".join(PROBE))
        async with self._client(timeout_s) as client:
            return await Retry(1, timeout_s)(lambda: client.completions.create(**arguments))

    def advice(self, capability: RequestKind) -> str:
        """What the server lacks."""
        if capability == "loglikelihood":
            reason = f" ({self._no_echo})" if getattr(self, "_no_echo", "") else ""
            return f"{self.url} returns no usable log-probabilities of the prompt{reason}; vLLM and SGLang do"
        return "load the reward model with the hf engine"

    def fingerprint(self) -> dict[str, Any]:
        """Server and model."""
        parts = urlsplit(self.url)
        return {
            "engine": self.name,
            "url": f"{parts.scheme}://{parts.hostname}:{parts.port or ''}{parts.path}",
            "model": self.model,
            "chat": self.chat,
        }

    # -- what it does ------------------------------------------------------------------------------------------------

    def run(self, requests: Sequence[Request]) -> Iterator[Output]:
        """Answers requests as the server finishes them."""
        if not requests:
            return
        model = self.model  # asked for before anything is sent, in this thread
        results: queue.Queue[Output | BaseException | None] = queue.Queue()
        loop = asyncio.new_event_loop()
        job = loop.create_task(self._run(model, requests, results))
        thread = threading.Thread(target=_drive, args=(loop, job, results), name="midflight-openai", daemon=True)
        thread.start()
        try:
            while (result := results.get()) is not None:
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            if not loop.is_closed():
                loop.call_soon_threadsafe(job.cancel)
            thread.join()

    async def _run(self, model: str, requests: Sequence[Request], results: queue.Queue[Any]) -> None:
        waiting = iter(requests)
        failures = 0

        async def work(client: Any) -> None:
            nonlocal failures
            for request in waiting:
                output, server_failed = await self._ask(client, model, request)
                failures = failures + 1 if server_failed else 0
                results.put(output)
                if failures >= self.give_up_after:
                    raise EngineDiedError(
                        f"{self.url}: {failures} requests in a row failed, the last with: {output.error}"
                    )

        async with self._client(self.timeout_s) as client, asyncio.TaskGroup() as group:
            for _ in range(min(self.concurrency, len(requests))):
                group.create_task(work(client))

    async def _ask(self, client: Any, model: str, request: Request) -> tuple[Output, bool]:
        """The output, and whether its error is the server's rather than the request's."""
        try:
            if request.kind == "loglikelihood":
                return await self._score(client, request), False
            return await self._generate(client, model, request), False
        except _FATAL as error:
            raise EngineError(
                f"{self.url} refuses: {_reason(error)}", hint="check the model's name and the key"
            ) from None
        except openai.BadRequestError as error:
            return Output(request.id, error=_reason(error)), False
        except (openai.OpenAIError, TimeoutError) as error:
            return Output(request.id, error=_reason(error)), True
        except (EchoError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
            return Output(request.id, error=f"garbage from the server: {_reason(error)}"), True

    async def _generate(self, client: Any, model: str, request: Request) -> Output:
        sampling = request.sampling or Sampling()
        arguments: dict[str, Any] = {
            "model": model,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed % (1 << 31),
        }
        if sampling.stop:
            arguments["stop"] = list(sampling.stop)
        if sampling.top_k:
            arguments["extra_body"] = {"top_k": sampling.top_k}
        if isinstance(request.prompt, str):
            answer = await self._retry(lambda: client.completions.create(prompt=request.prompt, **arguments))
            text = answer.choices[0].text
        else:
            messages = [dict(m) for m in request.prompt]
            answer = await self._retry(lambda: client.chat.completions.create(messages=messages, **arguments))
            text = answer.choices[0].message.content
        if text is not None and not isinstance(text, str):
            raise ValueError(f"the answer's text is {type(text).__name__}")
        usage = answer.usage
        return Output(
            request.id,
            text=text or "",
            num_tokens=int(usage.completion_tokens) if usage else 0,
            num_prompt_tokens=int(usage.prompt_tokens) if usage else 0,
            finish="length" if answer.choices[0].finish_reason == "length" else "stop",
        )

    async def _score(self, client: Any, request: Request) -> Output:
        if not isinstance(request.prompt, str):
            return Output(request.id, error="a chat answer's log-likelihood cannot be asked of a server")
        arguments = self._echo_arguments(request.prompt + request.continuation)
        answer = await self._retry(lambda: client.completions.create(**arguments))
        found = score_echo(answer, request.prompt, request.continuation)
        return Output(
            request.id,
            logprob=found.logprob,
            greedy=found.greedy,
            num_tokens=found.num_tokens,
            num_prompt_tokens=found.num_prompt_tokens,
            unscored_bytes=found.unscored_bytes,
        )

    def _echo_arguments(self, prompt: str) -> dict[str, Any]:
        # one token is generated and thrown away: several servers refuse max_tokens=0
        return {"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}


def _checked_url(url: str) -> SplitResult:
    allowed = "http://host:port/v1"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:  # a port that is no number or too large, a bracket that is not closed
        raise ConfigError(f"url of an OpenAI-compatible server: {error}", got=url, allowed=allowed) from None
    if not usable or not url.isprintable() or " " in url:
        raise ConfigError("url of an OpenAI-compatible server", got=url, allowed=allowed)
    return parts


def _blocking(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, also for a caller that an event loop runs (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _drive(loop: asyncio.AbstractEventLoop, job: asyncio.Task[None], results: queue.Queue[Any]) -> None:
    """Runs the job to its end in this thread; its error, or None, is the last result."""
    last: BaseException | None = None
    try:
        loop.run_until_complete(job)
    except asyncio.CancelledError:
        pass
    except BaseExceptionGroup as group:
        last = _first(group)
    except BaseException as error:  # handed to the thread that waits
        last = error
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        results.put(last)
        if last is not None:
            results.put(None)


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _reason(error: BaseException) -> str:
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return "timed out"
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) and error.__cause__ else error
    return shorten(f"{type(cause).__name__}: {cause}")
