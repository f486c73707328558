"""Starts the server and runs it until it is stopped."""

from __future__ import annotations

import contextlib
import ctypes
import secrets
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from midflight.errors import ConfigError, missing_extra
from midflight.panel.panel import Panel
from midflight.panel.watcher import Watcher
from midflight.store import Store

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

STATIC = Path(__file__).parent.parent / "static"
MOST_CONNECTIONS = 256
STOP_S = 1
BACKLOG = 128
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


@dataclass(frozen=True)
class Address:
    """Where the panel is.

    Attributes:
        url: Its URL.
        token: The token that it asks for; empty = none.
    """

    url: str
    token: str


def _shown(host: str) -> str:
    """The address as a browser takes it."""
    shown = host if host not in ("0.0.0.0", "::") else socket.gethostname()
    return f"[{shown}]" if ":" in shown else shown


def serve(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str = "",
    names: Collection[str] = (),
    allow_write: bool = False,
    static: Path = STATIC,
    tell: Callable[[Address], None] = lambda address: None,
) -> None:
    """Serves a store until it is stopped by a signal.

    Args:
        store: The store.
        host: The address to listen at. Any that is not a loopback address asks for a token.
        port: The port; 0 = a free one.
        token: What has to be known; empty = made where one is asked for.
        names: Further names under which browsers reach this machine.
        allow_write: Whether labels of runs may be changed.
        static: Folder of the built page.
        tell: Told where the panel is, once it listens.

    Raises:
        ConfigError: If the address cannot be listened at.
        MissingExtraError: If the extra is not installed.
    """
    try:
        import uvicorn

        from midflight.panel.server.app import make_app
        from midflight.panel.server.guard import Guard, is_loopback
    except ImportError as error:
        raise missing_extra("the panel", "panel", error) from error
    _keep_memory_small()
    listener = _listen(host, port)
    if not token and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    watcher = Watcher(store)
    panel = Panel(store, allow_write=allow_write, login=bool(token), changes=watcher)
    panel.diagnoses.on_made = lambda run: watcher.note(run, "findings")
    app = make_app(panel, watcher, Guard(host, token, time.monotonic, [name.lower() for name in names]), static)
    watcher.start()
    try:
        tell(Address(f"http://{_shown(host)}:{listener.getsockname()[1]}/", token))
        with contextlib.suppress(KeyboardInterrupt):  # which is how it is ended
            uvicorn.Server(_config(app)).run(sockets=[listener])
    finally:
        watcher.stop()
        listener.close()


def _config(app: ASGIApp) -> uvicorn.Config:
    import uvicorn

    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http="h11",  # whatever else is installed: its limits are those that the document tells
        ws="none",
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
    )


def _keep_memory_small() -> None:
    """Has glibc give large blocks back at once, and keep one heap for all threads; other libraries do as they do."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libc.so.6")
        for setting, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, 1 << 17), (_M_TRIM_THRESHOLD, 1 << 20)):
            library.mallopt(setting, value)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with the protocol named, asyncio turns Nagle's algorithm off, which costs 40 ms an answer
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        return listener
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(
            f"cannot listen at {host}:{port} ({reason})",
            hint="choose another with --host and --port; --port 0 = a free one",
        ) from None
