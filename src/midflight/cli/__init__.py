"""The command line, one file a command; each is imported when it is called.

Exit codes: 0 = done; 1 = an evaluation failed, or an item has no score or a metric no value, or a step of a workflow
failed, or the verdict is fail; 2 = bad input; 3 = the verdict is inconclusive; 130 = stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any

import typer
import typer.main

from midflight.errors import MidflightError, shorten

STOPPED = 130

app = typer.Typer(
    name="midflight",
    help="Evaluates language models while they train.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _register() -> None:
    from midflight.cli.act import act
    from midflight.cli.audit import audit
    from midflight.cli.catalog import catalog
    from midflight.cli.compare import compare
    from midflight.cli.demo import demo
    from midflight.cli.diagnose import diagnose
    from midflight.cli.eval import evaluate
    from midflight.cli.export import export
    from midflight.cli.flips import flips
    from midflight.cli.gate import gate
    from midflight.cli.groups import groups
    from midflight.cli.import_ import import_logs
    from midflight.cli.plot import plot
    from midflight.cli.power import power
    from midflight.cli.report import report
    from midflight.cli.runs import runs
    from midflight.cli.savings import savings
    from midflight.cli.scaling import scaling
    from midflight.cli.schema import schema
    from midflight.cli.serve import serve
    from midflight.cli.show import show
    from midflight.cli.store import store_app
    from midflight.cli.sweep import sweep
    from midflight.cli.top import top
    from midflight.cli.trend import trend
    from midflight.cli.watch import watch

    commands: dict[str, Any] = {
        "eval": evaluate,
        "watch": watch,
        "act": act,
        "audit": audit,
        "runs": runs,
        "show": show,
        "top": top,
        "serve": serve,
        "report": report,
        "export": export,
        "plot": plot,
        "power": power,
        "compare": compare,
        "flips": flips,
        "diagnose": diagnose,
        "trend": trend,
        "groups": groups,
        "scaling": scaling,
        "savings": savings,
        "sweep": sweep,
        "import": import_logs,
        "gate": gate,
        "catalog": catalog,
        "demo": demo,
        "schema": schema,
    }
    for name, function in commands.items():
        app.command(name)(function)
    app.add_typer(store_app, name="store")


_register()


def main() -> None:
    """Runs a command; what goes wrong is one line on standard error, never a traceback."""
    _open_streams()
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except MidflightError as error:
        _fail(str(error))
    except (KeyboardInterrupt, EOFError, typer.Abort):
        _stopped()
    except BrokenPipeError:  # who reads has read enough
        _close_output()
        sys.exit(0)
    except Exception as error:  # the last resort: whatever it is, a user is told in a line
        if os.environ.get("MIDFLIGHT_TRACEBACK"):
            raise
        _fail(_told(error))


def _run(arguments: list[str]) -> Any:
    """What a command gives back. Not by `app()`, which makes exit codes of its own of Ctrl-C and of closed pipes."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("midflight", arguments) as context:
            return command.invoke(context)
    except typer.Exit as ended:  # --help
        return ended.exit_code


def _open_streams() -> None:
    """Streams that take anything: a character that a terminal cannot write is escaped, a closed stream is nobody's."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it also takes the place of the file that would be opened next
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the end
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _close_output() -> None:
    """What is still to be written goes nowhere: Python would complain about it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(error: Exception) -> str:
    """An error in words."""
    usage = getattr(error, "format_message", None)
    if usage is not None:
        return str(usage())
    if isinstance(error, OSError):  # a name too long for a file, a full disk: the machine's, and no fault of ours
        _close_output()
        return f"{error.strerror or error}" + (f": {error.filename}" if error.filename is not None else "")
    return _internal(error)


def _internal(error: Exception) -> str:
    advice = "set MIDFLIGHT_TRACEBACK=1 for the traceback; please report"
    return f"internal error: {type(error).__name__}: {shorten(str(error))} ({advice})"


def _stopped() -> None:
    print("midflight: stopped; the same command goes on where it stopped", file=sys.stderr)
    sys.exit(STOPPED)


def _fail(message: str) -> None:
    is_help = message.startswith("Usage:")  # no command was named
    print(message if is_help else f"midflight: {shorten(message, 4000)}", file=sys.stderr)
    sys.exit(2)
