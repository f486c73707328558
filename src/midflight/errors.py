"""One tree of errors. Each says what failed, the value got, what is allowed and what to do next.

    MidflightError
    ├── ConfigError (ValueError)         an option, a spec or a command-line argument is wrong
    │   ├── UnknownKeyError (KeyError)   no such task, metric, engine, …; says what is near
    │   └── NotFoundError                what a page asks for is not there
    ├── TaskError (ValueError)           a task cannot be built: its file, rows or templates are wrong
    ├── MetricError (ValueError)         a metric cannot be computed, or gave something that is no number
    ├── EngineError (RuntimeError)       an engine cannot answer
    │   ├── CapabilityError              it never could: the model lacks what the task asks for
    │   └── EngineDiedError              it could and no longer can; what was answered is kept
    ├── DispatchError (RuntimeError)     an evaluation could not be handed to where it was to run, or was lost there
    ├── ContainerError (ValueError)      what a rank handed over cannot travel
    ├── CollectiveError (RuntimeError)   ranks could not speak: one died, or did not come in time
    ├── LostRankError (RuntimeError)     a rank did not write in time
    ├── EvaluationError (RuntimeError)   an evaluation did not come to an end
    ├── StoreError (RuntimeError)        the store cannot be opened, read or written
    │   └── LeaseLostError               another process has taken over what this one was doing
    ├── WorkflowError (RuntimeError)     a workflow cannot be carried out: another process is at it, or what a step did
    │   │                                cannot be known
    │   └── StepError                    a step of it failed
    └── MissingExtraError (ImportError)  an optional dependency is not installed

To add one: subclass the root and the built-in error that it refines, and raise it with the same arguments. All of
them pickle, so that a worker on another node can send them home.
"""

from __future__ import annotations

from typing import Any

_NOTHING: Any = object()


class MidflightError(Exception):
    """Root of all errors that Midflight raises on purpose.

    Args:
        what: What failed.
        got: The value that was found, shown shortened.
        allowed: What would have been right.
        hint: What to do next.
    """

    def __init__(self, what: str, *, got: Any = _NOTHING, allowed: str = "", hint: str = "") -> None:
        parts = [what]
        if got is not _NOTHING:
            parts.append(f"got {shorten(repr(got))}")
        if allowed:
            parts.append(f"allowed: {allowed}")
        if hint:
            parts.append(hint)
        self.message = "; ".join(parts)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message  # KeyError, one of the bases below, would show the repr

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message)


def _rebuild(kind: type[MidflightError], message: str) -> MidflightError:
    return kind(message)


class ConfigError(MidflightError, ValueError):
    """An option, a spec or a command-line argument is wrong."""


class UnknownKeyError(ConfigError, KeyError):
    """No plugin of that name."""


class NotFoundError(ConfigError):
    """There is no such run, task, item or text."""


class TaskError(MidflightError, ValueError):
    """A task cannot be built: its file, its rows or its templates are wrong."""


class MetricError(MidflightError, ValueError):
    """A metric cannot be computed, or gave something that is no number."""


class EngineError(MidflightError, RuntimeError):
    """An engine cannot answer."""


class CapabilityError(EngineError):
    """The model lacks what the task asks for."""


class EngineDiedError(EngineError):
    """The engine stopped answering half-way; what it answered before is kept."""


class DispatchError(MidflightError, RuntimeError):
    """An evaluation could not be handed to where it was to run, or was lost there."""


class ContainerError(MidflightError, ValueError):
    """What a rank handed over cannot travel, arrived damaged, or contradicts what another rank handed over."""


class CollectiveError(MidflightError, RuntimeError):
    """The ranks of a process group could not speak to each other: one died, or did not come within the time limit."""


class LostRankError(MidflightError, RuntimeError):
    """A rank did not write in time, or its node is gone."""


class EvaluationError(MidflightError, RuntimeError):
    """An evaluation did not come to an end."""


class StoreError(MidflightError, RuntimeError):
    """The store cannot be opened, read or written."""


class LeaseLostError(StoreError):
    """Another process has taken over what this one was doing."""


class WorkflowError(MidflightError, RuntimeError):
    """A workflow cannot be carried out: another process is at it, or what a step did cannot be known."""


class StepError(WorkflowError):
    """A step of a workflow failed.

    Attributes:
        permanent: Whether it would fail again, however often it is tried.
        wait_s: Seconds after which another try was asked for; None = nobody asked.
        output: The end of what it printed or was answered.
    """

    permanent: bool = False
    wait_s: float | None = None
    output: str = ""


class MissingExtraError(MidflightError, ImportError):
    """An optional dependency is not installed."""


def missing_extra(feature: str, extra: str, error: ImportError) -> MissingExtraError:
    """The error for an import that failed: names the extra that brings the package."""
    return MissingExtraError(f"{feature} needs {error.name or error}", hint=f"pip install 'midflight[{extra}]'")


def one_line(text: str) -> str:
    """Text on one line, whole, control characters made visible: fit for a place that wraps."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shorten(text: str, limit: int = 200) -> str:
    """Text of at most `limit` characters, on one line, control characters made visible: fit for a message."""
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def is_text(value: str) -> bool:
    """Whether a string is valid Unicode: half of a surrogate pair can be stored nowhere."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
