"""`midflight serve`: the panel in a browser."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from midflight.cli._options import StoreOption


def serve(
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at; any but a loopback address asks for a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 = a free one.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option("--token", help="Token to ask for. Default: $MIDFLIGHT_TOKEN; made where one is needed."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Name under which browsers reach it; repeat it.")
    ] = None,
    allow_write: Annotated[bool, typer.Option("--allow-write", help="Let the page change tags of runs.")] = False,
    store: StoreOption = None,
) -> int:
    """Show runs, curves, items, findings and gates in a browser, live."""
    from midflight.cli._options import existing_store
    from midflight.panel.server.run import Address
    from midflight.panel.server.run import serve as serve_store
    from midflight.show.lines import say

    def tell(address: Address) -> None:
        say(f"midflight: {opened.url} at {address.url} (Ctrl-C ends it)")
        if address.token and not given:
            say(f"midflight: token, shown this once: {address.token}")

    opened = existing_store(store, read_only=not allow_write)
    given = token or os.environ.get("MIDFLIGHT_TOKEN", "")
    serve_store(
        opened, host=host, port=port, token=given, names=allow_host or (), allow_write=allow_write, tell=tell
    )  # fmt: skip
    return 0
