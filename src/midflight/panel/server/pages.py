"""The built page, or how to build it; and the page that asks for a token."""

from __future__ import annotations

import html
from pathlib import Path

from starlette.responses import FileResponse, HTMLResponse, Response

_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Midflight</title>
<h1>page not built: npm run build</h1>
<p>The server runs, its page has not been built. In a checkout of Midflight:</p>
<pre>cd web
npm ci
npm run build</pre>
<p>then load this page again. An installation from PyPI brings the page with it. The data are at
<a href="/api/projects">/api/projects</a>, described in <a href="/openapi.json">/openapi.json</a>.</p>
</html>
"""

_LOG_IN = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Midflight</title>
<h1>Midflight</h1>
<form method="post" action="/login">
<input type="hidden" name="next" value="{after}">
<p><label>Token: <input type="password" name="token" autocomplete="current-password" autofocus></label>
<button>Log in</button></p>
</form>
<p>{message}</p>
<p>The token was shown where <code>midflight serve</code> was started.</p>
</html>
"""


def page(static: Path, path: str) -> Response:
    """The page, whatever its state in the path; files beside it by their name."""
    if "." in path.rpartition("/")[2]:
        return _file(static, path, {})
    index = static / "index.html"
    if not index.is_file():
        return HTMLResponse(_NOT_BUILT, 503)
    return FileResponse(index, media_type="text/html")


def asset(static: Path, path: str) -> Response:
    """A file whose name changes with its content."""
    return _file(static / "assets", path, {"Cache-Control": "public, max-age=31536000, immutable"})


def login_page(after: str, message: str = "", status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The page that asks for a token."""
    text = _LOG_IN.format(after=html.escape(after, quote=True), message=html.escape(message))
    return HTMLResponse(text, status, headers)


def _file(folder: Path, path: str, headers: dict[str, str]) -> Response:
    found = folder / path.replace("\0", "")
    try:
        is_there = found.resolve().is_relative_to(folder.resolve()) and found.is_file()
    except OSError:  # a name that no file can have
        is_there = False
    if not is_there:
        return Response("not found", 404, media_type="text/plain")
    return FileResponse(found, headers=headers)
