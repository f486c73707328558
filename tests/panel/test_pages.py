"""The page's own files are named early, by what Vite says of them."""

from __future__ import annotations

import json
import os

import pytest

from midflight.panel.server.pages import page

MANIFEST = {
    "index.html": {"file": "assets/index-1.js", "imports": ["_frame.js"]},
    "_frame.js": {"file": "assets/frame-1.js"},
    "_charts.js": {"file": "assets/charts-1.js", "imports": ["_frame.js"], "css": ["assets/charts-1.css"]},
    "src/page/project.tsx": {"file": "assets/project-1.js", "imports": ["_frame.js"]},
    "src/page/run.tsx": {
        "file": "assets/run-1.js",
        "imports": ["_frame.js", "_charts.js"],
        "css": ["assets/run-1.css"],
    },
    "src/words/en.ts": {"file": "assets/en-1.js"},
    "src/words/zh.ts": {"file": "assets/zh-1.js"},
}
STYLE = "rel=preload; as=style; crossorigin"


@pytest.fixture
def static(tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST))
    return tmp_path


def links(response):
    return sorted(filter(None, response.headers.get("link", "").split(", ")))


@pytest.mark.parametrize(
    ("path", "languages", "wanted"),
    [
        ("", "", ["en-1.js", "frame-1.js", "project-1.js"]),
        (
            "run/3",
            "zh-CN,zh;q=0.9,en",
            ["charts-1.css", "charts-1.js", "frame-1.js", "run-1.css", "run-1.js", "zh-1.js"],
        ),
        ("nowhere", "de", ["en-1.js"]),
        ("../run", "", ["en-1.js"]),
    ],
)
def test_what_a_page_will_ask_for_is_named(static, path, languages, wanted):
    how = {name: STYLE if name.endswith(".css") else "rel=modulepreload" for name in wanted}
    assert links(page(static, path, languages)) == [f"</assets/{name}>; {how[name]}" for name in wanted]


def test_a_page_that_was_built_anew_names_its_new_files(static):
    assert "</assets/en-1.js>; rel=modulepreload" in links(page(static, "gates"))
    (static / "manifest.json").write_text(json.dumps({"src/words/en.ts": {"file": "assets/en-2.js"}}))
    os.utime(static / "index.html", (1, 1))
    assert links(page(static, "gates")) == ["</assets/en-2.js>; rel=modulepreload"]


def test_without_a_manifest_nothing_is_named(static):
    (static / "manifest.json").unlink()
    (static / "index.html").touch()
    assert links(page(static, "run/1")) == []
