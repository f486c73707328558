"""Webhooks against a real server: what is sent, what is tried again, and where a secret never shows."""

from __future__ import annotations

import threading
import time
from email.utils import formatdate
from pathlib import Path

import pytest
from flows import Hook, checkpoint, executor, midflight, verdict, workflow, write_verdict

from midflight.credentials import Scrubber, resolve, variables_in
from midflight.errors import ConfigError
from midflight.schema import verdict_from_json
from midflight.store import open_store

OK = (200, {}, b"ok")


def send(url: str, said=None, waits: list[float] | None = None, **fields):
    workflow({"name": "hook", "kind": "webhook", "url": url, **fields})
    waits = [] if waits is None else waits
    return executor(sleep=waits.append).run(
        checkpoint() if not Path("ckpt").exists() else "ckpt/checkpoint-5", said or verdict()
    )


def test_the_whole_verdict_is_sent():
    import json

    with Hook(OK).running() as hook:
        execution = send(hook.url)
    assert execution.steps[0].result == {"status": 200, "output": "ok"}
    (body,), (headers,) = hook.bodies, hook.headers
    assert verdict_from_json(json.dumps(body["verdict"])) == verdict()
    assert (body["weights"], body["outcome"], body["step"]) == (execution.weights, "pass", "hook")
    assert headers["Idempotency-Key"] == f"{execution.id}/hook"
    assert headers["Content-Type"] == "application/json"


def test_slack_s_form_with_what_the_model_s_names_hold_as_data():
    with Hook(OK).running() as hook:
        send(hook.url, verdict("fail"), text="*${outcome}* <!here> ${policy}: ${reasons} (${run})", when="fail")
    assert hook.bodies == [{"text": "*fail* <!here> release: gsm8k &lt;dropped&gt; &amp; fell (mt4)"}]


def test_it_tries_again_as_long_as_the_server_asks():
    waits: list[float] = []
    soon = formatdate(time.time() + 100, usegmt=True)
    script = [
        (429, {"Retry-After": "7"}, b""),
        (503, {}, b"busy"),
        (500, {"Retry-After": "99999"}, b""),
        (503, {"Retry-After": soon}, b""),
        OK,
    ]
    with Hook(*script).running() as hook:
        execution = send(hook.url, waits=waits, backoff_s=2.0)
    assert execution.status == "done"
    assert (waits[:3], 90 < waits[3] <= 100) == ([7.0, 4.0, 300.0], True)
    assert execution.steps[0].attempts == 5


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_what_would_fail_again_is_not_tried_again(status):
    with Hook((status, {}, b"no")).running() as hook:
        execution = send(hook.url)
    assert (len(hook.bodies), execution.status) == (1, "failed")
    assert f"HTTP {status}" in execution.reason


def test_connections_that_break_are_tried_again():
    with Hook(lambda handler: handler.connection.close(), OK).running() as hook:
        assert send(hook.url).status == "done"
    refused = send(hook.url, retries=1, name="gone")  # nobody listens there any more
    assert refused.steps[0].attempts == 2
    assert "Connection refused" in refused.reason


def test_a_redirect_to_another_host_is_not_followed(monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-t0ken")
    with Hook(OK).running() as other:
        for status in (301, 302, 303, 307, 308):
            target = other.url.replace("127.0.0.1", "localhost")
            with Hook((status, {"Location": target}, b"")).running() as hook:
                execution = send(hook.url, headers={"Authorization": "Bearer ${env:TOKEN}"}, name=f"r{status}")
            assert f"HTTP {status}: a redirect, which is not followed" in execution.reason
            assert hook.headers[0]["Authorization"] == "Bearer s3cr3t-t0ken"
    assert other.bodies == []


class TestSecrets:
    SECRET = 's3cr3t/t0ken+"quoted"'

    def test_in_no_store_no_output_and_no_error(self, monkeypatch):
        from urllib.parse import quote

        monkeypatch.setenv("HOOK_TOKEN", self.SECRET)
        echo = f"you sent {self.SECRET} and {quote(self.SECRET, safe='')}".encode() * 3_000
        with Hook((500, {}, echo), (400, {"Location": self.SECRET}, echo)).running() as hook:
            workflow(
                {
                    "kind": "webhook",
                    "url": hook.url + "?key=${env:HOOK_TOKEN}".replace("${env:HOOK_TOKEN}", "${env:QUOTED}"),
                    "headers": {"X-Token": "${env:HOOK_TOKEN}"},
                    "backoff_s": 0.01,
                }
            )
            monkeypatch.setenv("QUOTED", quote(self.SECRET, safe=""))
            write_verdict()
            done = midflight("act", "workflow.toml", "--verdict", "verdict.json", "--checkpoint", checkpoint())
        assert hook.headers[0]["X-Token"] == self.SECRET
        assert done.returncode == 1
        trail = midflight("audit", "--json")
        assert "you sent ${env:" in trail.stdout
        stored = b"".join(path.read_bytes() for path in Path().glob("midflight.db*"))
        for spelling in (self.SECRET, quote(self.SECRET, safe=""), "t0ken"):
            assert spelling not in done.stdout + done.stderr + trail.stdout
            assert spelling.encode() not in stored

    def test_a_program_s_output_and_errors_are_scrubbed_too(self, monkeypatch):
        from flows import command

        monkeypatch.setenv("HOOK_TOKEN", self.SECRET)
        code = "import os; print(os.environ['T']); raise SystemExit(os.environ['T'])"
        workflow(command("x", code, env={"T": "${env:HOOK_TOKEN}"}))
        execution = executor().run(None, verdict())
        assert "t0ken" not in execution.reason
        assert execution.reason.endswith("exit code 1: ${env:HOOK_TOKEN}")
        assert "t0ken" not in str(open_store("s.db").audit())

    def test_one_that_is_no_header(self, monkeypatch):
        monkeypatch.setenv("HOOK_TOKEN", "two\nl1nes")
        execution = send("https://localhost:1", headers={"X-Token": "Bearer ${env:HOOK_TOKEN}"}, retries=0)
        assert "Invalid header value b'Bearer ${env:HOOK_TOKEN}'" in execution.reason

    def test_a_url_that_is_a_secret_is_checked_when_it_is_known(self, monkeypatch):
        monkeypatch.setenv("HOOK_URL", "http://example.org/T0/B0/secret")
        execution = send("${env:HOOK_URL}")
        assert "url ${env:HOOK_URL}; allowed: https://" in execution.reason
        assert "example.org" not in execution.reason

    def test_names(self, monkeypatch):
        assert variables_in({"a": ["${env:A}", {"b": "x${env:B_2}y"}], "c": 1}) == {"A", "B_2"}
        monkeypatch.setenv("A", "one")
        assert resolve("${env:A}/$A/${A}") == "one/$A/${A}"
        with pytest.raises(ConfigError, match="NOT_SET is not set"):
            resolve("${env:NOT_SET}")
        monkeypatch.setenv("LONGER", "one-two")
        scrub = Scrubber(["A", "LONGER"])
        assert scrub({"one": ["one-two", 1, None, {"x": "a one"}]}) == {
            "${env:A}": ["${env:LONGER}", 1, None, {"x": "a ${env:A}"}]
        }


class TestHostileServers:
    def test_a_flood_is_read_to_a_bound(self):
        def flood(handler):
            handler.send_response(200)
            handler.end_headers()
            try:
                for _ in range(10_000):
                    handler.wfile.write(b"x" * 100_000)
            except OSError:
                pass

        with Hook(flood).running() as hook:
            execution = send(hook.url)
        assert execution.status == "done"
        assert len(execution.steps[0].result["output"]) == 4_000

    @pytest.mark.parametrize("part", ["headers", "body"])
    def test_one_that_sends_byte_by_byte_is_given_up(self, part):
        released = threading.Event()

        def trickle(handler):
            try:
                if part == "body":
                    handler.send_response(200)
                    handler.end_headers()
                while not released.wait(0.02):
                    handler.wfile.write(b"x")
            except OSError:
                pass

        with Hook(trickle).running() as hook:
            began = time.monotonic()
            execution = send(hook.url, timeout_s=0.5, retries=1)
            assert time.monotonic() - began < 20
            released.set()
        assert "no answer within 0.5 s" in execution.reason
        assert execution.steps[0].attempts == 2

    @pytest.mark.parametrize("noise", [b"garbage\r\n\r\n", b"HTTP/1.1 999999 x\r\n\r\n", b"\x00" * 100_000, b""])
    def test_one_that_speaks_no_http(self, noise):
        def speak(handler):
            handler.wfile.write(noise)
            handler.close_connection = True

        with Hook(speak).running() as hook:
            execution = send(hook.url, retries=0)
        assert execution.status == "failed"
        assert len(execution.reason) < 1_000
