"""The application: a request comes in, is let in or not, and is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midflight.errors import ConfigError, MidflightError, NotFoundError, StoreError, shorten
from midflight.panel.answers.base import ask, questions
from midflight.panel.answers.run import RUN_ID
from midflight.panel.openapi import document
from midflight.panel.panel import Panel
from midflight.panel.plain import encode
from midflight.panel.rows import rows_of
from midflight.panel.server.events import events
from midflight.panel.server.guard import COOKIE, HEADERS, Guard
from midflight.panel.server.pages import asset, login_page, page
from midflight.panel.watcher import Watcher

THREADS = 3
"""Answers that are made at once; each thread has a connection with a cache of its own."""
MOST_BODY = 100_000
MOST_TAGS = 50
OPEN_PATHS = ("/login",)


def make_app(panel: Panel, watcher: Watcher, guard: Guard, static: Path) -> ASGIApp:
    """The application.

    Args:
        panel: What answers.
        watcher: What tells what is new.
        guard: Who may ask.
        static: Folder of the built page.
    """
    questions()  # read now, so that the first one who asks does not wait for it
    ours = _Handlers(panel, watcher, guard, static)
    routes = [
        Route("/api/events", ours.stream),
        Route("/api/runs/{id}", ours.change_run, methods=["PATCH"]),
        Route("/api/{path:path}", ours.api),
        Route("/openapi.json", ours.openapi),
        Route("/login", ours.log_in, methods=["GET", "POST"]),
        Route("/logout", ours.log_out, methods=["POST"]),
        Route("/assets/{path:path}", ours.assets),
        Route("/{path:path}", ours.other),
    ]
    handlers: Any = {MidflightError: _explain, _Refused: _explain, 404: _no_route, 405: _no_route, 500: _broken}
    return _Guarded(Starlette(routes=routes, exception_handlers=handlers), guard)


class _Handlers:
    """What answers each path."""

    def __init__(self, panel: Panel, watcher: Watcher, guard: Guard, static: Path) -> None:
        self._panel, self._watcher, self._guard, self._static = panel, watcher, guard, static
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="midflight-answer")

    async def _json(self, work: Callable[[], Any], **headers: str) -> Response:
        """What work gives, which is done in a thread, as JSON."""

        def make() -> bytes:
            with self._panel.diagnoses.held():
                return encode(work())

        body = await asyncio.get_running_loop().run_in_executor(self._pool, make)
        return Response(body, media_type="application/json", headers=headers)

    async def api(self, request: Request) -> Response:
        """An answer; nothing if the browser has it."""
        etag = f'W/"{self._panel.token}"'
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"ETag": etag})
        url = f"{request.url.path}?{request.scope['query_string'].decode('ascii', 'replace')}"
        return await self._json(lambda: ask(self._panel, url), ETag=etag)

    async def change_run(self, request: Request) -> Response:
        """Other labels for a run."""
        if not self._panel.allow_write:
            raise _Refused(403, "this panel is read-only: start it with --allow-write")
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise _Refused(415, "the body has to be application/json")
        tags, id = _tags(await _body(request)), RUN_ID.read([request.path_params["id"]])
        return await self._json(lambda: _set_tags(self._panel, id, tags))

    async def stream(self, request: Request) -> Response:
        """What is new."""
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return events(self._watcher, since[:100])

    async def openapi(self, request: Request) -> Response:
        """The document of the API."""
        return await self._json(document)

    async def log_in(self, request: Request) -> Response:
        """A session for who knows the token."""
        return await _log_in(self._guard, request)

    async def log_out(self, request: Request) -> Response:
        """The end of a session."""
        self._guard.end_session(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    async def assets(self, request: Request) -> Response:
        """A part of the page."""
        return asset(self._static, request.path_params["path"])

    async def other(self, request: Request) -> Response:
        """The page."""
        return page(self._static, request.path_params["path"], request.headers.get("accept-language", ""))


class _Refused(Exception):
    """What is not done, with the status of the answer."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = encode({"error": {"status": status, "message": shorten(message, 2000)}})
    return Response(body, status, headers, "application/json")


async def _explain(request: Request, error: Exception) -> Response:
    if isinstance(error, _Refused):
        return _error(error.status, error.message, error.headers)
    status = 404 if isinstance(error, NotFoundError) else 503 if isinstance(error, StoreError) else 500
    return _error(400 if isinstance(error, ConfigError) and status == 500 else status, str(error))


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return _error(status, "no such path or method", getattr(error, "headers", None))


async def _broken(request: Request, error: Exception) -> Response:
    return _error(500, f"internal error: {type(error).__name__}: please report it")


# -- what may be changed ---------------------------------------------------------------------------------------------


async def _body(request: Request) -> bytes:
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > MOST_BODY:
            raise _Refused(413, f"a body may have up to {MOST_BODY} bytes")
    return found


def _tags(body: bytes) -> list[str]:
    try:
        tags = json.loads(body)["tags"]
    except (ValueError, KeyError, TypeError, RecursionError):
        tags = None
    is_list = isinstance(tags, list) and len(tags) <= MOST_TAGS
    if not is_list or not all(isinstance(tag, str) and 0 < len(tag) <= 100 and tag.isprintable() for tag in tags):
        raise ConfigError("body", allowed=f'{{"tags": [up to {MOST_TAGS} texts of 1 to 100 printable characters]}}')
    return list(dict.fromkeys(tags))


def _set_tags(panel: Panel, id: int, tags: list[str]) -> Any:
    run = panel.run(id)
    panel.store.set_tags(run.id, tags)
    pulses = {pulse.run: pulse for pulse in panel.store.pulses()}
    return rows_of(panel, [panel.run(id)], pulses, None)[0]


async def _log_in(guard: Guard, request: Request) -> Response:
    from urllib.parse import parse_qs

    given = parse_qs((await _body(request)).decode("utf-8", "replace")) if request.method == "POST" else {}
    wanted = given.get("next", [request.query_params.get("next", "/")])[0]
    after = wanted if wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable() else "/"
    if request.method == "GET" or not guard.token:
        return login_page(after)
    address = request.client.host if request.client is not None else ""
    wait = guard.must_wait(address)
    if wait:
        return login_page(after, f"too many wrong tokens: try again in {wait} s", 429, {"Retry-After": str(wait)})
    if not guard.check(address, given.get("token", [""])[0].strip()):
        return login_page(after, "this is not the token", 401)
    answer = RedirectResponse(after, 303)
    answer.set_cookie(COOKIE, guard.open_session(), httponly=True, samesite="strict", path="/")
    return answer


# -- who may come in -------------------------------------------------------------------------------------------------


class _Guarded:
    """The application behind its guard; every answer carries the headers."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                added = {**HEADERS, "Cache-Control": "no-cache"}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in added.items() if k.lower().encode() not in present),
                ]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (self._app if refusal is None else refusal)(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """Why a request is not answered."""
        host, guard = request.headers.get("host", ""), self._guard
        if not guard.knows(host):
            return _error(403, f"this panel is not known as {shorten(host, 100)}; use its address, or --allow-host")
        is_api = request.url.path.startswith("/api/") or request.url.path == "/openapi.json"
        if (is_api or request.method not in ("GET", "HEAD")) and not _is_own(request, host):
            return _error(403, "a page of another site may not ask for anything here")
        address = request.client.host if request.client is not None else ""
        authorization = request.headers.get("authorization", "")
        if request.url.path in OPEN_PATHS or guard.lets_in(address, request.cookies.get(COOKIE, ""), authorization):
            return None
        if is_api:
            return _error(401, "log in first: /login, or the header Authorization: Bearer TOKEN")
        return RedirectResponse("/login", 303)


def _is_own(request: Request, host: str) -> bool:
    """Whether a request comes from our own page, or from no page at all."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    return site in ("same-origin", "none") and (origin is None or origin.partition("://")[2] == host)
