"""A stream of what is new, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from midflight.panel.plain import encode
from midflight.panel.watcher import Watcher

ALIVE_S = 15.0
MOST_STREAMS = 64


def events(watcher: Watcher, since: str) -> Response:
    """The stream from a token on."""
    if watcher.num_listeners >= MOST_STREAMS:
        message = f"{MOST_STREAMS} pages listen already: ask /api/changes now and then"
        return Response(encode({"error": {"status": 503, "message": message}}), 503, media_type="application/json")
    return StreamingResponse(_stream(watcher, since), media_type="text/event-stream")


async def _stream(watcher: Watcher, since: str) -> AsyncIterator[bytes]:
    with watcher.listening() as event:
        yield b"retry: 2000\n\n"
        while True:
            event.clear()
            change = watcher.since(since)
            if change["since"] != since:
                since = change["since"]
                yield b"event: change\nid: %b\ndata: %b\n\n" % (since.encode(), encode(change))
            try:
                await asyncio.wait_for(event.wait(), ALIVE_S)
            except TimeoutError:
                yield b": alive\n\n"
