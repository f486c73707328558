"""The HTTP engine: against a real server, and against every way in which servers fail."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest
from servers import Server, chat, echoing, error, ok, trickle

from midflight.engines import HF, OpenAI
from midflight.engines._openai_logprobs import EchoError, score_echo
from midflight.errors import CapabilityError, ConfigError, EngineDiedError, EngineError
from midflight.records import Request, Sampling


def asked(count: int = 4, **sampling) -> list[Request]:
    message = ({"role": "user", "content": "2+2?"},)
    return [
        Request(f"{i}/0/0", str(i), "generate", message, sampling=Sampling(**sampling), seed=i) for i in range(count)
    ]


def engine(server: Server, **options) -> OpenAI:
    return OpenAI(server.url, **{"retries": 0, "timeout_s": 10.0, **options})


def run(server: Server, requests=None, **options):
    requests = asked() if requests is None else requests
    found = {o.request_id: o for o in engine(server, **options).run(requests)}
    assert set(found) == {r.id for r in requests}
    return [found[r.id] for r in requests]


def test_answers_and_what_is_asked():
    with Server(
        lambda path, body: chat(f"seed {body['seed']}", "length" if body["seed"] == 1 else "stop")
    ).running() as server:
        outputs = run(server, asked(2, temperature=0.5, top_p=0.9, top_k=7, max_tokens=9, stop=("x",)))
    assert [(o.text, o.finish, o.num_tokens, o.num_prompt_tokens) for o in outputs] == [
        ("seed 0", "stop", 2, 3),
        ("seed 1", "length", 2, 3),
    ]
    body = next(r for r in server.requests if r["seed"] == 0)
    assert (
        body.items()
        >= {"model": "m", "temperature": 0.5, "top_p": 0.9, "top_k": 7, "max_tokens": 9, "stop": ["x"]}.items()
    )


def test_requests_in_flight_are_bounded():
    gate = threading.Barrier(3)  # three have to be in flight at once, or this times out

    def respond(path, body):
        gate.wait(timeout=20)
        return chat("4")

    with Server(respond).running() as server:
        run(server, asked(12), concurrency=3)
    assert server.most_in_flight == 3


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (error(500), "InternalServerError"),
        (error(429, **{"retry-after": "0"}), "RateLimitError"),
        (
            (200, {"content-type": "application/json"}, b'{"choices": [{"mess'),
            "JSONDecodeError|APIResponseValidationError|garbage",
        ),
        ((200, {"content-type": "text/html"}, b"<html>gateway</html>"), "garbage"),
        (ok({}), "garbage"),
        (ok({"choices": []}), "garbage"),
        (ok({"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}), "garbage"),
        (ok([1, 2]), "garbage"),
        ((200, {"content-type": "application/json"}, b""), "garbage|JSONDecodeError"),
        (None, "RemoteProtocolError|Server disconnected|ReadError"),
    ],
    ids=["500", "429", "cut json", "html", "empty object", "no choices", "number", "list", "nothing", "hang up"],
)
def test_a_fault_of_one_request_is_an_error_of_one_item(fault, message):
    import re

    def respond(path, body):
        return fault if body["seed"] == 2 else chat("4")

    with Server(respond).running() as server:
        outputs = run(server)
    assert [o.text for o in outputs if o.error is None] == ["4"] * 3
    assert re.search(message, outputs[2].error), outputs[2].error
    assert "\n" not in outputs[2].error


def test_an_empty_answer_is_an_answer():
    with Server(lambda path, body: chat("")).running() as server:
        assert [(o.text, o.error) for o in run(server, asked(1))] == [("", None)]
    with Server(
        lambda path, body: ok({"choices": [{"message": {"content": None}, "finish_reason": "stop"}]})
    ).running() as server:
        assert [(o.text, o.error, o.num_tokens) for o in run(server, asked(1))] == [("", None, 0)]


@pytest.mark.parametrize("fault", [error(503), error(429, **{"retry-after": "0"}), None], ids=["503", "429", "hang up"])
def test_what_passes_is_tried_again(fault):
    seen = []

    def respond(path, body):
        seen.append(body["seed"])
        return fault if seen.count(body["seed"]) < 2 else chat("4")

    with Server(respond).running() as server:
        assert [o.text for o in run(server, asked(2), retries=3)] == ["4", "4"]
    assert len(seen) == 4


def test_a_server_that_hangs_costs_one_time_limit():
    release = threading.Event()

    def respond(path, body):
        if body["seed"] == 1:
            release.wait(20)
        return chat("4")

    with Server(respond).running() as server:
        outputs = run(server, asked(3), timeout_s=0.3)
        release.set()
    assert [o.error for o in outputs] == [None, "timed out", None]


def test_a_server_that_trickles_bytes_for_ever_costs_one_time_limit():
    """The SDK's own limit begins anew with every byte."""
    released = threading.Event()
    with Server(lambda path, body: trickle(released) if body.get("seed") != 0 else chat("4")).running() as server:
        try:
            outputs = run(server, asked(3), timeout_s=0.5)
            capabilities = engine(server, timeout_s=0.2).capabilities
        finally:
            released.set()
    assert [o.error for o in outputs] == [None, "timed out", "timed out"]
    assert capabilities == {"generate"}


def test_from_within_an_event_loop():
    """In a notebook, say."""

    async def cell() -> list[str]:
        return [o.text for o in OpenAI(server.url).run(asked(1))]

    with Server(lambda path, body: chat("4")).running() as server:
        assert asyncio.run(cell()) == ["4"]


def test_a_server_that_dies_ends_the_run_and_keeps_what_was_answered():
    def respond(path, body):
        return chat("4") if body["seed"] < 5 else error(500, "CUDA error")

    found = []
    with (
        Server(respond).running() as server,
        pytest.raises(EngineDiedError, match="8 requests in a row failed.*CUDA error"),
    ):
        for output in engine(server, concurrency=1, give_up_after=8).run(asked(1000)):
            found.append(output)
    assert [o.text for o in found if o.error is None] == ["4"] * 5
    assert len(server.requests) == 13


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "AuthenticationError"), (403, "PermissionDenied"), (404, "NotFound")]
)
def test_a_refusal_ends_the_run_at_once(status, kind):
    with Server(lambda path, body: error(status, "no such model")).running() as server:
        with pytest.raises(EngineError, match=rf"refuses: {kind}.*no such model.*check the model's name and the key"):
            run(server, asked(50), concurrency=2)
        assert len(server.requests) <= 4


def test_a_request_that_the_server_calls_bad_is_not_the_servers_fault():
    with Server(lambda path, body: error(400, "maximum context length is 2048")).running() as server:
        outputs = run(server, asked(30), give_up_after=5)
    assert all("maximum context length is 2048" in o.error for o in outputs)


def test_no_server_at_all():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EngineError, match=r"cannot list its models: .*is the server running"):
        list(OpenAI(f"http://127.0.0.1:{port}").run(asked(1)))
    with pytest.raises(EngineDiedError, match="requests in a row failed"):
        list(OpenAI(f"http://127.0.0.1:{port}", "m", retries=0, give_up_after=3).run(asked(10)))


def test_leaving_early_stops_the_requests():
    with Server(lambda path, body: chat("4")).running() as server:
        outputs = engine(server, concurrency=1).run(asked(10_000))
        next(outputs)
        outputs.close()
        assert len(server.requests) < 10_000
    assert not [t for t in threading.enumerate() if t.name == "midflight-openai"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "ftp://x"}, "url of an OpenAI-compatible server; got 'ftp://x'"),
        ({"url": "http://x:99999"}, "url of an OpenAI-compatible server: Port out of range"),
        ({"url": "http://x:abc/v1"}, "url of an OpenAI-compatible server: Port could not be cast"),
        ({"url": "http://x:0"}, "url of an OpenAI-compatible server; got 'http://x:0'"),
        ({"url": "http://[::1"}, "url of an OpenAI-compatible server: Invalid IPv6 URL"),
        ({"url": "http:///v1"}, "url of an OpenAI-compatible server; got"),
        ({"url": "http://a b"}, "url of an OpenAI-compatible server; got"),
        ({"url": "http://a\n"}, "url of an OpenAI-compatible server; got"),
        ({"url": "http://x", "retries": -1}, "retries; got -1"),
        ({"url": "http://x", "timeout_s": float("nan")}, "timeout_s; got nan"),
        ({"url": "http://x", "concurrency": 0}, "concurrency; got 0"),
        ({"url": "http://x", "timeout_s": -1}, "timeout_s; got -1"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ConfigError, match=message):
        OpenAI(**options)


def test_the_fingerprint_holds_no_secret():
    fingerprint = OpenAI("http://user:secret@host:8000/v1", "m", api_key="sk-secret").fingerprint()
    assert "secret" not in json.dumps(fingerprint)
    assert fingerprint["url"] == "http://host:8000/v1"


class TestLogLikelihood:
    pairs = [("The License", " is granted"), ("subject to the terms ", "and conditions"), ("x", " y"), ("", "the Work")]

    def requests(self):
        return [Request(f"{i}/0/0", str(i), "loglikelihood", c, t) for i, (c, t) in enumerate(self.pairs)]

    def test_equals_the_same_model_in_process(self, tiny_model, word_tokenizer):
        with Server(echoing(tiny_model, word_tokenizer)).running() as server:
            assert "loglikelihood" in engine(server).capabilities
            outputs = run(server, self.requests())
        local = {o.request_id: o for o in HF(tiny_model, word_tokenizer).run(self.requests())}
        for request, output in list(zip(self.requests(), outputs, strict=True))[:3]:
            assert output.logprob == pytest.approx(local[request.id].logprob, abs=1e-4)
            assert (output.greedy, output.num_tokens) == (local[request.id].greedy, local[request.id].num_tokens)
        # without a context the first token has nothing to follow, and is not counted
        assert outputs[3].num_tokens == local["3/0/0"].num_tokens - 1
        first = word_tokenizer.decode(word_tokenizer.encode("the Work")[:1])
        assert [o.unscored_bytes for o in outputs] == [0, 0, 0, len(first)]

    def test_a_server_that_ignores_echo_is_found_out(self):
        """llama.cpp's own server takes `echo`, and returns the log-probability of the token that it generated."""
        entry = {"id": 30, "token": ".", "bytes": [46], "logprob": -0.4, "top_logprobs": []}
        answer = {"text": ".", "index": 0, "logprobs": {"content": [entry]}, "finish_reason": "length"}
        with Server(lambda path, body: ok({"choices": [answer], "object": "text_completion"})).running() as server:
            assert engine(server).capabilities == {"generate"}
            with pytest.raises(
                CapabilityError, match="returns no usable log-probabilities of the prompt.*vLLM and SGLang do"
            ):
                engine(server).require("loglikelihood", "t")

    @pytest.mark.real
    @pytest.mark.parametrize("shift", [0, 1])
    def test_a_server_whose_log_probabilities_are_shifted_is_found_out(self, smollm_folder, shift):
        local = HF.load(smollm_folder)
        with Server(echoing(local.model, local.tokenizer, shift)).running() as server:
            assert ("loglikelihood" in engine(server, timeout_s=60.0).capabilities) == (shift == 0)

    def answer(self, tokens, values, text=None, offsets=None):
        from types import SimpleNamespace

        logprobs = SimpleNamespace(tokens=tokens, token_logprobs=values, top_logprobs=None, text_offset=offsets)
        return SimpleNamespace(choices=[SimpleNamespace(logprobs=logprobs, text=text or "".join(tokens))])

    def test_where_the_continuation_begins(self):
        tokens, values = ["ab", "c ", "de", "X"], [None, -1.0, -2.0, -4.0]
        assert score_echo(self.answer(tokens, values), "abc ", "de").logprob == -3.0  # the space belongs to it
        assert score_echo(self.answer(tokens, values), "ab", "c de").logprob == -3.0
        assert score_echo(self.answer(tokens, values), "abc d", "e").logprob == -2.0  # a token over the border
        found = score_echo(self.answer(tokens, values), "", "abc de")
        assert (found.num_tokens, found.unscored_bytes) == (2, 2)
        umlaut = score_echo(self.answer(["äö", "c"], [None, -1.0]), "", "äöc")
        assert (umlaut.logprob, umlaut.unscored_bytes) == (-1.0, 4)

    def test_a_bos_token_before_the_prompt(self):
        answer = self.answer(["<s>", "ab", "cd", "X"], [None, -1.0, -2.0, -4.0], offsets=[-1, -1, -1, -1])
        found = score_echo(answer, "", "abcd")
        assert (found.logprob, found.num_tokens, found.unscored_bytes) == (-3.0, 2, 0)

    @pytest.mark.parametrize(
        ("tokens", "values"),
        [
            ([], []),
            (["ab"], [None]),
            (["other", "X"], [None, -1.0]),
            (["ab", "cd"], [None]),
            (["ab", "cd", "X"], [None, None, -1.0]),
        ],
    )
    def test_what_is_no_echo(self, tokens, values):
        with pytest.raises(EchoError):
            score_echo(self.answer(tokens, values), "ab", "cd")


@pytest.fixture(scope="module")
def transformers_serve(smollm_folder):
    """A real server process: `transformers serve` with SmolLM2."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; sys.exit(main())"
    arguments = ["serve", str(smollm_folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for line in process.stderr:  # it says when it is ready
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail("transformers serve did not start")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        urllib.request.urlopen(f"{url}/health", timeout=30).close()
        yield url
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.real
class TestRealServer:
    def test_it_answers_as_the_model_in_process(self, transformers_serve, smollm_folder):
        questions = ["What is 2+2?", "Name a colour.", "What is the capital of France?"]
        requests = [
            Request(f"{i}/0/0", str(i), "generate", ({"role": "user", "content": q},), sampling=Sampling(max_tokens=12))
            for i, q in enumerate(questions)
        ]
        remote = OpenAI(transformers_serve, str(smollm_folder), concurrency=2, timeout_s=120)
        outputs = {o.request_id: o for o in remote.run(requests)}
        local = {o.request_id: o for o in HF.load(smollm_folder, tokens_per_batch=1).run(requests)}
        for request in requests:
            assert outputs[request.id].error is None
            assert outputs[request.id].text.strip() == local[request.id].text.strip()
            assert outputs[request.id].num_prompt_tokens == local[request.id].num_prompt_tokens

    def test_it_has_no_log_probabilities_and_we_notice(self, transformers_serve, smollm_folder):
        assert OpenAI(transformers_serve, str(smollm_folder), timeout_s=120).capabilities == {"generate"}
