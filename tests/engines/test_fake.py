"""The scripted engine keeps its script."""

from __future__ import annotations

import pytest

from midflight.engines import Fake, open_engine
from midflight.errors import CapabilityError, ConfigError, EngineDiedError
from midflight.records import Request


def asked(count: int = 3, kind="generate") -> list[Request]:
    return [Request(f"{i}/0/0", str(i), kind, f"question {i}", f" answer {i}") for i in range(count)]


def test_scripts():
    assert [o.text for o in Fake(answers="yes").run(asked())] == ["yes"] * 3
    assert [o.text for o in Fake(answers={"0": "a", "1": "b", "2": "c"}, backwards=True).run(asked())] == [
        "c",
        "b",
        "a",
    ]
    assert [o.text for o in Fake(answers=lambda r: r.prompt[-1]).run(asked())] == ["0", "1", "2"]
    assert [o.logprob for o in Fake(logprobs={" answer 0": -3.0}).run(asked(1, "loglikelihood"))] == [-3.0]
    assert [o.reward for o in Fake(rewards={"question 0": 2.0}).run(asked(1, "reward"))] == [2.0]


def test_failures():
    outputs = list(Fake(answers="x", fail=["1"], cut=["2"]).run(asked()))
    assert [(o.error, o.finish) for o in outputs] == [(None, "stop"), ("scripted failure", "stop"), (None, "length")]
    engine = Fake(die_after=2)
    found = []
    with pytest.raises(EngineDiedError, match="died after 2 outputs"):
        found.extend(engine.run(asked()))
    assert len(engine.seen) == 2


def test_capabilities_are_what_it_has_scripts_for():
    engine = Fake(answers=None, rewards=None)
    assert engine.capabilities == {"loglikelihood"}
    with pytest.raises(
        CapabilityError, match="task 't' needs an engine that can answer 'generate' requests; got 'fake engine"
    ):
        engine.require("generate", "t")


def test_models_on_the_command_line(tmp_path):
    assert list(open_engine("fake:42").run(asked(1)))[0].text == "42"
    with pytest.raises(ConfigError, match=r"model 'nowhere': no such file or folder; allowed: a model folder"):
        open_engine("nowhere")
    with pytest.raises(ConfigError, match="url of an OpenAI-compatible server; got 'localhost'"):
        open_engine("openai:localhost")
