"""Jinja2's sandbox, with bounds on time and memory: what a template computes is refused before it grows too large.

Jinja2 keeps a template away from Python's insides, and bounds one `range`. It does not bound ``10 ** 10 ** 10``,
``'x' * 10 ** 10``, a text that is doubled forty times, or loops within loops. Here operators, calls, filters and
joins look at sizes first, and rounds of loops and calls are counted.
"""

from __future__ import annotations

import functools
import inspect
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_SIZE = 5_000_000
"""Characters of a text, elements of a list."""

MAX_BITS = 20_000
"""Bits of a whole number."""

MAX_STEPS = 100_000
"""Rounds of loops and calls of one template over one row; also the largest width."""

_WIDE = frozenset({"center", "indent", "wordwrap", "batch", "slice", "ljust", "rjust", "zfill", "expandtabs"})
"""Filters and methods that give as much as a number says."""

_COUNTED = "_counted"


class _Generator(CodeGenerator):
    """Sends ``~`` through the environment, as Jinja2 sends the other operators."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """Code that joins texts."""
        self.write("environment.concat(map(str, (")
        for inner in node.nodes:
            self.visit(inner, frame)
            self.write(", ")
        self.write(")))")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox in which templates and expressions run."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})
    code_generator_class = _Generator

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._left = threading.local()
        del self.globals["lipsum"]
        self.filters = {name: _guarded(function) for name, function in self.filters.items()}
        self.filters[_COUNTED] = self._counted

    def begin(self) -> None:
        """Starts counting anew: for one template and one row."""
        self._left.steps = MAX_STEPS

    def _step(self) -> None:
        self._left.steps -= 1
        if self._left.steps < 0:
            raise SecurityError(f"more than {MAX_STEPS:,} rounds of loops and calls")

    def _counted(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            self._step()
            yield row

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None, lineno=loop.lineno)
        return tree

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """What a template, a block or a macro puts out, in one text."""
        texts, size = [], 0
        for part in parts:
            size = _bound(size + len(part))
            texts.append(part)
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The result of an operator."""
        if operator == "%" and isinstance(left, str):
            _check_widths(left)
        elif isinstance(left, int) and isinstance(right, int):
            _check_whole(operator, left, right)
        else:
            _check_sequence(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, /, *args: Any, **options: Any) -> Any:
        """The result of a call."""
        self._step()
        method = inspect.unwrap(function)
        if isinstance(owner := getattr(method, "__self__", None), str):
            _check_text_call(method.__name__, (owner, *args), options)
        return super().call(context, function, *args, **options)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is asked for nothing too large; Jinja2's marks on it are kept."""
    name = function.__name__.removeprefix("do_").removeprefix("sync_do_")

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> Any:
        # behind what Jinja2 gives to filters that it marks, a context or an environment
        _check_text_call(name, args[1:] if hasattr(function, "jinja_pass_arg") else args, options)
        found = function(*args, **options)
        _bound(len(found) if isinstance(found, str | list) else 0)
        return found

    return guarded


def _check_text_call(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Looks at what a method of a text, or the filter of the same name, is asked for."""
    given = (*args, *options.values())
    if name in _WIDE and any(isinstance(value, int) and value > MAX_STEPS for value in given):
        raise SecurityError(f"a width above {MAX_STEPS:,}")
    if name in ("format", "format_map"):
        _check_widths(str(args[0]))
    elif name == "replace" and len(given) >= 3:
        text, old, new = map(str, given[:3])
        _bound(len(text) + text.count(old) * len(new))
    elif name == "join":
        lists = [value for value in given if isinstance(value, list | tuple)]
        _bound(sum(map(len, lists)) * max((len(value) for value in given if isinstance(value, str)), default=0))


def _check_whole(operator: str, left: int, right: int) -> None:
    bits = {"**": left.bit_length() * max(right, 0), "*": left.bit_length() + right.bit_length()}.get(operator, 0)
    if abs(left) > 1 and bits > MAX_BITS:
        raise SecurityError(f"a number of more than {MAX_BITS:,} bits")


def _check_sequence(operator: str, left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str | list | tuple):
            if operator == "*" and isinstance(other, int):
                _bound(len(one) * other)
            elif operator == "+" and isinstance(other, str | list | tuple):
                _bound(len(one) + len(other))


def _check_widths(template: str) -> None:
    if re.search(r"\d{6}|%[^%a-zA-Z]*\*|\{[^}]*\{", template):
        raise SecurityError("a width of six digits, or one that is an argument, in a format")


def _bound(size: int) -> int:
    if size > MAX_SIZE:
        raise SecurityError(f"a text or list of more than {MAX_SIZE:,} elements")
    return size
