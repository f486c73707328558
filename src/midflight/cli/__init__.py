"""The command line, one file a command; each is imported when it is called.

Exit codes: 0 = done; 1 = an evaluation failed, or an item has no score or a metric no value, or a step of a workflow
failed, or the verdict is fail; 2 = bad input; 3 = the verdict is inconclusive; 130 = stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import typer

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
    from midflight.cli.trend import trend
    from midflight.cli.watch import watch

    commands: dict[str, Any] = {
        "eval": evaluate,
        "watch": watch,
        "act": act,
        "audit": audit,
        "runs": runs,
        "show": show,
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
    _write_all_characters()
    try:
        code = app(standalone_mode=False)
        if code == STOPPED:  # what typer makes of Ctrl-C
            _stopped()
        sys.exit(code if isinstance(code, int) else 0)
    except MidflightError as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        _stopped()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a name too long for a file, a disk that is full: the machine's, and not ours
        if os.environ.get("MIDFLIGHT_TRACEBACK"):
            raise
        _fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename is not None else ""))
    except Exception as error:  # the last resort: whatever it is, a user is told in a line
        if os.environ.get("MIDFLIGHT_TRACEBACK"):
            raise
        usage = getattr(error, "format_message", None)
        _fail(usage() if usage is not None else _internal(error))


def _write_all_characters() -> None:
    """A terminal that cannot write a character is shown its escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _internal(error: Exception) -> str:
    advice = "set MIDFLIGHT_TRACEBACK=1 for the traceback; please report"
    return f"internal error: {type(error).__name__}: {shorten(str(error))} ({advice})"


def _stopped() -> None:
    print("midflight: stopped; the same command goes on where it stopped", file=sys.stderr)
    sys.exit(STOPPED)


def _fail(message: str) -> None:
    print(f"midflight: {shorten(message, 4000)}", file=sys.stderr)
    sys.exit(2)
