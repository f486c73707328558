"""The Hugging Face Hub and MLflow, each through its real client: against a local server, and a local registry."""

from __future__ import annotations

import base64
import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from flows import checkpoint, command, executor, verdict, workflow

from midflight.store import open_store


class FakeHub:
    """As much of the Hub's HTTP as an upload needs; every file is small enough to travel inside the commit."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.commits: list[dict[str, str]] = []
        self.tokens: set[str | None] = set()
        self.status = 200
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, path: str, body: bytes) -> object:
        if self.status != 200:
            return {"error": f"not allowed: {self.tokens}"}
        if path == "/api/repos/create":
            return {"url": f"{self.url}/me/mt4", "name": "mt4"}
        if "/preupload/" in path:
            names = [file["path"] for file in json.loads(body)["files"]]
            return {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}
        if "/commit/" in path:
            return self.commit(body)
        return {"id": "me/mt4", "sha": "0" * 40, "siblings": []}

    def commit(self, body: bytes) -> object:
        header, *files = [json.loads(line) for line in body.splitlines()]
        self.commits.append(header["value"])
        self.files |= {file["value"]["path"]: base64.b64decode(file["value"]["content"]) for file in files}
        oid = f"{len(self.commits):040x}"
        return {"success": True, "commitOid": oid, "commitUrl": f"{self.url}/me/mt4/commit/{oid}", "hookOutput": ""}

    @contextmanager
    def running(self):
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            chunked = self.headers.get("transfer-encoding") == "chunked"
            body = self._chunks() if chunked else self.rfile.read(int(self.headers.get("content-length", 0)))
            hub.tokens.add(self.headers.get("Authorization"))
            data = json.dumps(hub.answer(self.path, body)).encode()
            self.send_response(hub.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.do_POST()

        def _chunks(self) -> bytes:
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class TestHub:
    @pytest.fixture
    def hub(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_TOKEN", "hf_s3cr3t")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        with FakeHub().running() as hub:
            yield hub

    def test_the_model_s_files_in_one_commit(self, hub):
        workflow({"kind": "push_hub", "repo": "me/mt4", "endpoint": hub.url})
        path = checkpoint()
        execution = executor().run(path, verdict())
        assert execution.status == "done", execution.reason
        assert hub.files == {name: (path / name).read_bytes() for name in ("config.json", "model.safetensors")}
        assert hub.tokens == {"Bearer hf_s3cr3t"}
        assert hub.commits[0]["summary"].startswith(f"Midflight {execution.id}: checkpoint-5, weights ")
        assert execution.steps[0].result["commit"] == f"{1:040x}"
        assert "hf_s3cr3t" not in str(open_store("s.db").audit())

    def test_a_refusal_is_a_failure_without_the_token(self, hub):
        hub.status = 403
        workflow({"kind": "push_hub", "repo": "me/mt4", "endpoint": hub.url})
        execution = executor().run(checkpoint(), verdict())
        assert execution.status == "failed"
        assert "403" in execution.reason
        assert "hf_s3cr3t" not in execution.reason + str(open_store("s.db").audit())


class TestMlflow:
    """With a registry of files, which needs no server and no database."""

    @pytest.fixture
    def client(self, monkeypatch):
        pytest.importorskip("mlflow")
        from mlflow import MlflowClient

        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        registry = Path("registry").absolute().as_uri()
        return MlflowClient(tracking_uri=registry, registry_uri=registry)

    def step(self, **fields):
        registry = Path("registry").absolute().as_uri()
        return {"kind": "mlflow", "model": "mt4", "alias": "production", "registry": registry, **fields}

    def test_a_version_with_alias_and_tags_once(self, client):
        workflow(self.step())
        path = checkpoint()
        execution = executor().run(path, verdict())
        assert execution.status == "done", execution.reason
        version = client.get_model_version_by_alias("mt4", "production")
        assert version.source == path.absolute().as_uri()
        assert version.tags["midflight.weights"] == execution.weights
        assert (version.tags["midflight.outcome"], version.tags["midflight.verdict"]) == ("pass", "v1")

    def test_a_step_that_was_cut_off_finds_its_version(self, client, monkeypatch):
        from midflight.gate.workflow.steps import mlflow
        from midflight.gate.workflow.steps.base import StepContext

        context = StepContext("w", "e1", "mlflow", 1, Path(), "", checkpoint=checkpoint(), weights="f" * 64)
        arguments = {"model": "m", "alias": "production", "registry": Path("registry").absolute().as_uri()}
        first, again = (mlflow.register(context, **arguments) for _ in range(2))
        assert first == again
        assert len(client.search_model_versions("name = 'm'")) == 1

    def test_the_alias_goes_back(self, client):
        workflow(self.step())
        executor().run(checkpoint(4), verdict(step=4))
        workflow(self.step(), command("bad", "raise SystemExit(1)"))
        execution = executor().run(checkpoint(5), verdict())
        assert execution.steps[0].status == "rolled_back", execution.reason
        assert client.get_model_version_by_alias("mt4", "production").version == 1
        assert len(client.search_model_versions("name = 'mt4'")) == 2


def test_without_the_package_the_extra_is_named():
    """In a process whose path holds a package that cannot be imported."""
    for name in ("mlflow", "huggingface_hub"):
        Path(f"blocked/{name}").mkdir(parents=True)
        Path(f"blocked/{name}/__init__.py").write_text(f"raise ModuleNotFoundError('No module', name={name!r})")
    path = os.pathsep.join([str(Path("blocked").absolute()), os.environ.get("PYTHONPATH", "")])
    os.environ["PYTHONPATH"], before = path, os.environ.get("PYTHONPATH")
    os.environ["HF_TOKEN"] = "x-token-x"
    try:
        workflow({"kind": "mlflow", "model": "m"})
        assert "pip install 'midflight[mlflow]'" in executor().run(checkpoint(), verdict()).reason
        workflow({"kind": "push_hub", "repo": "a/b"})
        assert "pip install 'midflight[hub]'" in executor().run("ckpt/checkpoint-5", verdict()).reason
    finally:
        del os.environ["HF_TOKEN"]
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
