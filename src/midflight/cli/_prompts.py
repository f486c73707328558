"""The prompts of a task as the engine sends them, for `midflight eval --print-prompts`."""

from __future__ import annotations

import json
from itertools import groupby

from midflight.engines import BaseEngine
from midflight.errors import CapabilityError
from midflight.records import Request
from midflight.show.lines import say, visible
from midflight.tasks import Task


def print_prompts(task: Task, engine: BaseEngine, num: int, seed: int) -> None:
    """Prints the prompts of the first items, each once, with what is scored after it.

    Raises:
        CapabilityError: If the task needs a chat template and the engine has none.
    """
    engine.require(task.capability, task.name)
    chat = task.uses_chat(engine.chat)
    if chat and not engine.chat:
        raise CapabilityError(f"task {task.name!r} needs a model with a chat template", got=engine.name)
    for item in task.items[:num]:
        requests = [request for request in task.requests(item, chat, seed) if request.id.split("/")[-2] == "0"]
        for prompt, group in groupby(requests, lambda request: _as_sent(request, engine)):
            say(visible(f"--- {task.name}, item {item.id}"))
            say(visible(prompt))
            for request in group:
                if request.kind == "loglikelihood":
                    say(f"--- scored after it: {json.dumps(request.continuation, ensure_ascii=False)}")


def _as_sent(request: Request, engine: BaseEngine) -> str:
    """Text as it is; messages as the chat template writes them, or as JSON where a server has the template."""
    if isinstance(request.prompt, str):
        return request.prompt
    encoder = getattr(engine, "encoder", None)
    if encoder is None:
        return json.dumps([dict(message) for message in request.prompt], ensure_ascii=False, indent=2)
    return str(encoder.render(request.prompt, answer_next=request.kind != "reward"))
