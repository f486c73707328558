"""The server as a browser meets it: a real process, real HTTP, a writer beside it, and those who should not get in."""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import threading
import time

import pytest
from serving import HOSTILE, Server, fill

from midflight.panel.server.guard import ATTEMPTS, HEADERS, WINDOW_S, Guard
from midflight.run import Run
from midflight.store import open_store


def test_every_answer_tells_the_browser_what_it_may_do(server):
    for path in ("/", "/run/3", "/api/projects", "/api/nothing", "/assets/x.js", "/openapi.json", "/api/runs?limit=0"):
        answer = server.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name.lower()] == value
        assert "access-control-allow-origin" not in answer.headers
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers


def test_without_a_built_page_it_says_how_to_build_it(tmp_path, server):
    answer = server.get("/run/1")
    if answer.status == 200:
        pytest.skip("the page is built here")
    assert (answer.status, b"page not built: npm run build" in answer.body) == (503, True)


@pytest.mark.parametrize(
    "path",
    ["/assets/../../app.py", "/assets/%2e%2e/%2e%2e/app.py", "/..%2f..%2fapp.py", "/assets//etc/passwd", "/x%00.js"],
)
def test_nothing_outside_of_the_page_is_served(server, path):
    answer = server.get(path)
    assert answer.status == 404
    assert b"import" not in answer.body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:8765", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_a_name_that_is_not_ours_is_dns_rebinding(server, host, status):
    assert server.get("/api/projects", Host=host).status == status


def test_pages_of_other_sites_may_ask_for_nothing(server):
    for headers in (
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://evil.example"},
    ):
        assert server.get("/api/projects", **headers).status == 403
    own = {"Sec_Fetch_Site": "same-origin", "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.get("/api/projects", **own).status == 200
    assert server.get("/run/1", Sec_Fetch_Site="cross-site").status in (200, 503)  # a link may lead here


def test_errors_are_json_in_the_style_of_the_house(server):
    assert server.get("/api/runs?limit=0").message == "parameter limit; got '0'; allowed: a whole number from 1 to 1000"
    assert server.get("/api/runs?nothing=1").message.startswith("parameter; got 'nothing'; allowed: project, search")
    assert server.get("/api/runs/99").status == 404
    assert server.get("/api/nothing").status == 404
    assert server.get("/api/runs?search=%FF").status == 400
    assert server.get("/api/runs?search=a&search=b").status == 400
    assert server.get("/api/projects", "DELETE").status == 405


def test_read_only_unless_it_is_told_otherwise(server, tmp_path):
    refused = server.get("/api/runs/1", "PATCH", b'{"tags": []}', Content_Type="application/json")
    assert (refused.status, "read-only" in refused.message) == (403, True)
    store = fill(open_store(str(tmp_path / "w.db")), runs=1, checkpoints=1, steps=3)
    with Server(store.location, ["--allow-write"]) as writable:

        def patch(body, **headers):
            return writable.get("/api/runs/1", "PATCH", body, **{"Content_Type": "application/json", **headers})

        assert patch(b'{"tags": ["good", "good", "x"]}').json["tags"] == ["good", "x"]
        assert store.runs()[0].tags == ["good", "x"]
        assert patch(b'{"tags": []}', Origin="http://evil.example").status == 403
        assert patch(b'{"tags": []}', Sec_Fetch_Site="cross-site").status == 403
        assert patch(b'{"tags": []}', Content_Type="text/plain").status == 415
        for body in (b"", b"[]", b'{"tags": "a"}', b'{"tags": ["\\u0000"]}', b'{"tags": [1]}', b"[" * 5000):
            assert patch(body).status == 400
        assert patch(b"x" * 200_000).status == 413
        assert store.runs()[0].tags == ["good", "x"]


class TestToken:
    @pytest.fixture(scope="class")
    def guarded(self, filled):
        with Server(filled.location, ["--host", "0.0.0.0"]) as running:
            self_token = re.search(r"token, shown this once: (\S+)", running.process.stdout.readline())
            running.token = self_token[1]
            yield running

    def test_any_address_but_a_loopback_one_asks_for_it(self, guarded):
        assert guarded.get("/api/projects").status == 401
        assert guarded.get("/openapi.json").status == 401
        page = guarded.get("/run/1")
        assert (page.status, page.headers["location"]) == (303, "/login")
        assert guarded.get("/api/projects", Authorization=f"Bearer {guarded.token}").json["login"] is True
        assert guarded.get("/api/projects", Authorization="Bearer nonsense").status == 401
        assert guarded.get("/api/projects", Cookie="midflight-session=nonsense").status == 401

    def test_logging_in_gives_a_cookie_that_scripts_and_other_sites_cannot_use(self, guarded):
        form = f"token={guarded.token}&next=/run/1"
        answer = guarded.get("/login", "POST", form.encode(), Content_Type="application/x-www-form-urlencoded")
        assert (answer.status, answer.headers["location"]) == (303, "/run/1")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert guarded.token not in cookie
        session = cookie.partition(";")[0]
        assert guarded.get("/api/projects", Cookie=session).status == 200
        assert guarded.get("/logout", "POST", Cookie=session).status == 303
        assert guarded.get("/api/projects", Cookie=session).status == 401

    @pytest.mark.parametrize("after", ["//evil.example", "https://evil.example", "/\\evil.example", "x"])
    def test_it_never_sends_to_another_site(self, guarded, after):
        form = f"token={guarded.token}&next={after}"
        answer = guarded.get("/login", "POST", form.encode(), Content_Type="application/x-www-form-urlencoded")
        assert answer.headers["location"] == "/"

    def test_names_of_others_are_refused_before_the_token(self, guarded):
        assert guarded.get("/login", Host="evil.example").status == 403

    def test_the_login_page_shows_text_as_text(self, guarded):
        answer = guarded.get('/login?next=/"><script>alert(1)</script>')
        assert b"<script>" not in answer.body


def test_guesses_are_counted_and_time_brings_them_back():
    now = [100.0]
    guard = Guard("0.0.0.0", "right", lambda: now[0])
    assert [guard.check("1.2.3.4", "wrong") for _ in range(ATTEMPTS)] == [False] * ATTEMPTS
    assert guard.must_wait("1.2.3.4") == WINDOW_S
    assert not guard.check("1.2.3.4", "right")
    assert guard.check("5.6.7.8", "right")
    now[0] += WINDOW_S
    assert guard.check("1.2.3.4", "right")


def test_too_many_guesses_over_http(filled):
    with Server(filled.location, ["--token", "right"]) as guarded:
        assert "shown" not in guarded.said
        form = {"method": "POST", "body": b"token=wrong", "Content_Type": "application/x-www-form-urlencoded"}
        assert [guarded.get("/login", **form).status for _ in range(ATTEMPTS + 1)] == [401] * ATTEMPTS + [429]
        assert guarded.get("/api/projects", Authorization="Bearer right").status == 401


def test_what_the_browser_has_costs_nothing(server):
    first = server.get("/api/runs")
    again = server.get("/api/runs", If_None_Match=first.headers["etag"])
    if again.status == 200:  # a diagnosis was made in between
        again = server.get("/api/runs", If_None_Match=again.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_nothing_new_costs_less_than_a_kilobyte(server):
    token = server.get("/api/projects").json["since"]
    answer = server.get(f"/api/changes?since={token}")
    head = sum(len(name) + len(value) + 4 for name, value in answer.headers.items())
    assert head + len(answer.body) < 1000


WRITER = """
import sys, time
from midflight.run import Run

with Run("live", "writer", store=sys.argv[1], resume="never") as run:
    print("ready", flush=True)
    for step, _ in enumerate(sys.stdin):
        run.log(step, loss=1 / (step + 1))
        print(time.time(), flush=True)
"""


class Stream:
    """Events as they come, each with the time at which it did."""

    def __init__(self, server, since):
        self.connection = server.connect()
        self.connection.request("GET", f"/api/events?since={since}")
        self.response = self.connection.getresponse()
        assert self.response.headers["content-type"].startswith("text/event-stream")

    def next_change(self):
        while True:
            line = self.response.readline()
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def close(self):
        self.connection.sock and self.connection.sock.close()
        self.connection.close()


def test_a_point_that_is_logged_is_told_within_a_second(tmp_path):
    path = str(tmp_path / "live.db")
    open_store(path)
    with Server(path) as server:
        stream = Stream(server, server.get("/api/projects").json["since"])
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout.readline() == "ready\n"
        while "new" not in {kind for run in stream.next_change()["runs"] for kind in run["changed"]}:
            pass
        delays = []
        for step in range(7):
            writer.stdin.write("\n")
            writer.stdin.flush()
            logged = float(writer.stdout.readline())
            while True:
                (run,) = stream.next_change()["runs"]
                if run["last_step"] == step:
                    break
            series = server.get(f"/api/series?keys=loss&low={step}&runs=1").json
            assert (series["exact"], series["num_buckets"]) == (True, 1)
            delays.append(time.time() - logged)
        writer.communicate()
        assert statistics.median(delays) < 1.0
        states = []
        while "finished" not in states:
            states += [run["state"] for run in stream.next_change()["runs"]]
        stream.close()


def test_a_killed_training_is_told(tmp_path):
    path = str(tmp_path / "killed.db")
    open_store(path)
    with Server(path) as server:
        stream = Stream(server, server.get("/api/projects").json["since"])
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        writer.stdout.readline()
        assert stream.next_change()["runs"][0]["state"] == "running"
        writer.kill()
        writer.communicate()
        while stream.next_change()["runs"][0]["state"] != "lost":
            pass
        stream.close()


def test_twenty_browsers_while_trainings_write(tmp_path):
    store = open_store(str(tmp_path / "many.db"))
    fill(store, runs=2, checkpoints=2, steps=50)
    runs = [Run("p", f"live{i}", store=store, resume="never") for i in range(4)]
    wrong, counts = [], []
    with Server(store.location) as server:

        def browse(number):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            answered = 0
            for path in (
                "/api/projects",
                "/api/runs",
                "/api/runs/1",
                "/api/series?keys=*&runs=1,2,3,4,5,6",
                "/api/changes",
            ) * 4:
                connection.request("GET", path)
                response = connection.getresponse()
                body = response.read()
                if response.status != 200:
                    wrong.append((path, response.status, body))
                answered += 1
            counts.append(answered)

        browsers = [threading.Thread(target=browse, args=(i,)) for i in range(20)]
        for browser in browsers:
            browser.start()
        step = 0
        while any(browser.is_alive() for browser in browsers):
            step += 1
            for run in runs:
                run.log(step, loss=1.0)
            time.sleep(0.001)
        for browser in browsers:
            browser.join()
    for run in runs:
        run.finish()
        assert len(store.read_points(run.id, "loss").steps) == step
    assert (wrong, counts) == ([], [20] * 20)
    assert server.output[1] == ""


def test_too_many_streams_are_told_to_poll(server, monkeypatch):
    streams = [Stream(server, "") for _ in range(64)]
    refused = server.get("/api/events")
    assert (refused.status, "/api/changes" in refused.message) == (503, True)
    for stream in streams:
        stream.close()


def test_it_ends_when_it_is_told_to_though_pages_listen(filled):
    with Server(filled.location) as server:
        stream = Stream(server, "")
        began = time.monotonic()
    assert server.process.returncode in (0, 130)
    assert time.monotonic() - began < 10
    stream.close()


def test_addresses_that_cannot_be(filled, tmp_path, server):
    def refusal(*options):
        done = subprocess.run(
            [sys.executable, "-m", "midflight", "serve", *options], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        return done.stderr

    assert "cannot listen at 127.0.0.1" in refusal("--store", filled.location, "--port", str(server.port))
    assert "cannot listen at no.such.host.invalid" in refusal(
        "--store", filled.location, "--host", "no.such.host.invalid"
    )
    assert "no store at" in refusal("--store", str(tmp_path / "nothing.db"))
    assert "--port" in refusal("--store", filled.location, "--port", "70000")


def test_memory(server):
    for path in ("/api/runs", "/api/runs/1", "/api/series?keys=*&runs=1,2", "/api/items?run=1&task=sums"):
        assert server.get(path).status == 200
    assert server.memory_mb() < 80


def test_hostile_text_is_data(server):
    item = server.get("/api/item?item=i20&runs=1&task=sums").json
    assert item["item"]["row"]["text"] == {"text": HOSTILE, "length": len(HOSTILE)}
    assert HOSTILE in {output["text"]["text"] for answer in item["answers"] for output in answer["outputs"]}
    assert server.get("/api/runs").headers["content-type"] == "application/json"
