"""The built page, or how to build it; and the page that asks for a token."""

from __future__ import annotations

import html
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

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


def page(static: Path, path: str, languages: str = "") -> Response:
    """The page, whatever its state in the path; files beside it by their name.

    Args:
        static: Folder of the built page.
        path: What is asked for.
        languages: What the browser says of its reader, `Accept-Language`.
    """
    if "." in path.rpartition("/")[2]:
        return _file(static, path, {})
    index = static / "index.html"
    if not index.is_file():
        return HTMLResponse(_NOT_BUILT, 503)
    words = "zh" if languages.lower().startswith("zh") else "en"
    parts = _manifest(static / "manifest.json", index.stat().st_mtime_ns)
    return FileResponse(
        index, media_type="text/html", headers=_early(parts, path.partition("/")[0] or "project", words)
    )


@lru_cache(maxsize=1)
def _manifest(path: Path, built: int) -> dict[str, Any]:
    """What Vite says of the files that it made; of the page that was built at that time."""
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return found


def _early(manifest: dict[str, Any], name: str, words: str) -> dict[str, str]:
    """A header by which the browser fetches a page's own files at once, and not when the code that names them is there.

    Over a slow line that is a round trip less.
    """
    files: dict[str, str] = {}
    waiting = [f"src/page/{name}.tsx", f"src/words/{words}.ts"]
    while waiting:
        part = manifest.get(waiting.pop(), {})
        if "file" in part and part["file"] not in files:
            files[part["file"]] = "modulepreload"
            files |= dict.fromkeys(part.get("css", ()), "preload; as=style; crossorigin")
            waiting += part.get("imports", ())
    return {"Link": ", ".join(f"</{file}>; rel={how}" for file, how in files.items())} if files else {}


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
