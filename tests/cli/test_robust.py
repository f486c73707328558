"""Whatever it is given, the program answers in a line: in this process, so that many ways to break it are cheap to try."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest

import midflight.cli
from midflight import catalog
from midflight.store import open_store

TASK = 'source = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}"\ntarget = "a"\nmetrics = ["exact_match"]\n'


@pytest.fixture(autouse=True)
def _task() -> None:
    Path("rows.jsonl").write_text("".join(json.dumps({"q": f"{a}+1=", "a": a + 1}) + "\n" for a in range(4)))
    Path("sums.toml").write_text(TASK)


@pytest.fixture
def call(capsys, monkeypatch):
    """Exit code, standard output and standard error of a command."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["midflight", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            midflight.cli.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


EVAL = ["eval", "fake:4", "-t", "sums.toml"]
BAD = [
    ([*EVAL, "--step", 2**62 + 1], "--step; got 4611686018427387905; allowed: a whole number from 0 to"),
    ([*EVAL, "--seed", -1], "--seed; got -1"),
    ([*EVAL, "--print-prompts", 0], "Invalid value for '--print-prompts'"),
    (["eval", "openai:http://x:99999", "-t", "sums.toml"], "openai:http://host:port/v1; Port out of range"),
    (["eval", "openai:http://[::1", "-t", "sums.toml"], "Invalid IPv6 URL"),
    (["eval", "fake:\udc80", "-t", "sums.toml"], "allowed: a name in valid Unicode"),
    (["eval", "", "-t", "sums.toml"], "model; got ''"),
    ([*EVAL, "--concurrency", 4], "--concurrency; got 4; allowed: with a model of the openai engine, not fake"),
    ([*EVAL, "--batch-tokens", 4], "--batch-tokens; got 4; allowed: with a model of the hf engine"),
    (["eval", "nowhere", "-t", "sums.toml"], "model 'nowhere': no such file or folder"),
    (["eval", "x" * 5000, "-t", "sums.toml"], "File name too long"),
    (["eval", "fake:4", "-t", "x" * 5000], "cannot be read: .*File name too long"),
    (["eval", "fake:4", "-t", "deep.toml"], "deep.toml: cannot be read as TOML: it is nested too deeply"),
    (["eval", "fake:4", "-t", "long.toml"], "long.toml: cannot be read as TOML: Exceeds the limit"),
    (["eval", "fake:4", "-t", "circle.toml"], "circle.toml: extends itself"),
    (["eval", "fake:4", "-t", "sums@deep.jsonl"], "unknown key among tasks"),
    (["eval", "fake:4", "-t", "arc@deep.jsonl"], "deep.jsonl:1: not valid JSON: nested too deeply"),
    (["eval", "fake:4", "-t", "arc@long.jsonl"], "task arc@long.jsonl: cannot be read: Exceeds the limit"),
    (["watch", "ckpt", "-t", "sums.toml", "--interval", "nan"], "--interval; got nan"),
    (["watch", "ckpt", "-t", "sums.toml", "--interval", "1e300"], "--interval; got 1e\\+300"),
    (["schema", "task", "--example"], "--example; got 'task'; allowed: report"),
    (["catalog", "ark"], "did you mean 'arc'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(map(str, a))[:60] for a, _ in BAD])
def test_bad_input_is_a_line(call, arguments, message):
    Path("deep.toml").write_text("x = " + "[" * 5000)
    Path("long.toml").write_text("limit = " + "9" * 5000)
    Path("circle.toml").write_text('extends = "circle.toml"')
    Path("deep.jsonl").write_text('{"q": ' + "[" * 100_000)
    Path("long.jsonl").write_text('{"q": ' + "9" * 5000 + "}")
    code, out, err = call(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert re.search(message, err), err
    assert not Path("midflight.db").exists()


class TestTheLastResort:
    @pytest.fixture(autouse=True)
    def _broken(self, monkeypatch):
        def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError("a\nb\x1b[31m")

        monkeypatch.setattr("midflight.store.open_store", broken)

    def test_is_a_line(self, call):
        assert call("runs") == (
            2,
            "",
            "midflight: internal error: ZeroDivisionError: a\\nb\\x1b[31m"
            " (set MIDFLIGHT_TRACEBACK=1 for the traceback; please report)\n",
        )

    def test_or_the_traceback_on_request(self, monkeypatch):
        monkeypatch.setenv("MIDFLIGHT_TRACEBACK", "1")
        monkeypatch.setattr(sys, "argv", ["midflight", "runs"])
        with pytest.raises(ZeroDivisionError):
            midflight.cli.main()


def test_a_terminal_that_knows_only_ascii_is_no_error(monkeypatch):
    bytes_out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_out, encoding="ascii"))
    Path("rows.jsonl").write_text(json.dumps({"q": "1+1=", "a": "😀"}) + "\n")
    for arguments in (EVAL, [*EVAL, "--json"], ["show", "fake", "--items"], ["show", "fake", "--items", "--json"]):
        monkeypatch.setattr(sys, "argv", ["midflight", *arguments])
        with pytest.raises(SystemExit) as ended:
            midflight.cli.main()
        assert ended.value.code == 0
    sys.stdout.flush()
    (found,) = json.loads(bytes_out.getvalue().decode("ascii").rpartition("\n[\n")[2].join(["[\n", ""]))
    assert found["items"][0]["target"] == "😀"


@pytest.mark.parametrize("name", ["²", "9" * 5000, "\udc80"])
def test_a_name_that_is_no_number(call, name):
    call(*EVAL)
    code, _, err = call("show", name)
    assert (code, err.count("\n")) == (2, 1)
    assert "there are: fake" in err


class TestEval:
    def test_what_was_there_before_is_said_to_be_from_the_store(self, call):
        assert "(from the store)" not in call(*EVAL)[1]
        assert "sums · fake step 0 (from the store)" in call(*EVAL)[1]

    def test_a_metric_that_raised_is_a_warning_and_exit_code_1(self, call):
        Path("own.py").write_text(
            "from midflight import BaseMetric\nfrom midflight.tasks import Task\n"
            "class Risk(BaseMetric):\n"
            "    def compute(self, predictions, labels): return 1 / 0\n"
            "task = Task('own', [{'a': 1}, {'a': 2}], prompt='{{ a }}', target='a', metrics=['exact_match', Risk])\n"
        )
        for _ in range(2):  # also when it is read from the store
            code, _, err = call("eval", "fake:1", "-t", "own.py:task")
            assert code == 1
            assert err == "midflight: own: risk has no value: compute raised ZeroDivisionError: division by zero\n"
        assert "risk has no value: compute raised ZeroDivisionError: division by zero (step 0)" in call("show", "1")[1]

    def test_the_store_is_opened_before_a_model_is_loaded(self, call, monkeypatch):
        monkeypatch.setattr("midflight.engines.open_engine", lambda *_, **__: pytest.fail("loaded"))
        code, _, err = call(*EVAL, "--store", "rows.jsonl")
        assert (code, "it is no SQLite file" in err) == (2, True)

    def test_a_model_that_is_loaded_from_files_is_named(self, call):
        Path("empty").mkdir()
        assert call("eval", "empty", "-t", "sums.toml")[2].startswith("midflight: loading empty…\n")

    def test_prompts_are_printed_as_they_are_sent(self, call):
        Path("pairs.toml").write_text(
            'kind = "multiple_choice"\nsource = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}\\n\\u001b"\n'
            'choices = "[\'x\', \'y\']"\ntarget = "0"\nmetrics = ["choice_accuracy"]\n'
        )
        code, out, err = call(*EVAL, "-t", "pairs.toml", "--print-prompts", 2)
        assert (code, err) == (0, "")
        assert out.splitlines() == [
            "--- sums, item 000000",
            "0+1=",
            "--- sums, item 000001",
            "1+1=",
            "--- pairs, item 000000",
            "0+1=",
            "\\x1b",
            '--- scored after it: " x"',
            '--- scored after it: " y"',
            "--- pairs, item 000001",
            "1+1=",
            "\\x1b",
            '--- scored after it: " x"',
            '--- scored after it: " y"',
        ]
        assert not Path("midflight.db").exists()

    def test_a_chat_prompt_is_what_the_template_makes_of_it(self, capsys, word_tokenizer):
        from conftest import tiny_llama
        from midflight.cli._prompts import print_prompts
        from midflight.engines import HF, Fake
        from midflight.tasks import load_task

        word_tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
        try:
            print_prompts(load_task("sums.toml"), HF(tiny_llama(word_tokenizer), word_tokenizer), 1, 0)
        finally:
            word_tokenizer.chat_template = None
        assert capsys.readouterr().out == "--- sums, item 000000\n<user>0+1=<assistant>\n"
        print_prompts(load_task("sums.toml"), Fake("1", chat=True), 1, 0)
        assert '"content": "0+1="' in capsys.readouterr().out


class TestShow:
    @pytest.fixture(autouse=True)
    def _evaluated(self, call):
        Path("sums.toml").write_text(TASK + 'slices = { odd = "a % 2" }\n')
        for step in (0, 50):
            call(*EVAL, "--run", "r", "--step", step)

    def test_items_of_the_last_step_or_another(self, call):
        out = call("show", "r", "--items")[1]
        assert out.startswith("sums · r step 50\n000000  ok  exact_match 0  [odd=1]\n")
        assert call("show", "r", "--items", "--step", 0)[1].startswith("sums · r step 0\n")
        assert "000003" not in call("show", "r", "--items", "--failed")[1]
        (found,) = json.loads(call("show", "r", "--items", "--failed", "--json")[1])
        assert (found["task"], found["step"], len(found["items"])) == ("sums", 50, 3)

    def test_slices(self, call):
        out = call("show", "r", "--slices")[1]
        assert [line.split()[0] for line in out.splitlines()] == ["sums", "slice", "all", "odd=0", "odd=1"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--task", "sms"], "did you mean 'sums'"),
            (["--step", 7], "--step; got 7; allowed: 0, 50"),
            (["--failed"], "--failed and --full; allowed: beside --items"),
            (["--items", "--slices"], "--slices and --items; allowed: one of them"),
        ],
    )
    def test_what_is_not_there(self, call, arguments, message):
        code, out, err = call("show", "r", *arguments)
        assert (code, out, err.count("\n"), message in err) == (2, "", 1, True), err

    def test_plot_by_slice(self, call):
        assert call("plot", "r", "-m", "exact_match", "--by", "odd", "-o", "x.svg")[0] == 0
        assert "odd=1" in Path("x.svg").read_text()
        code, _, err = call("plot", "r", "-m", "exact_match", "--slice", "odd=2", "-o", "x.svg")
        assert (code, "allowed: odd=0, odd=1" in err) == (2, True)
        assert "one of them" in call("plot", "r", "-m", "x", "--by", "odd", "--slice", "odd=2", "-o", "x.svg")[2]

    def test_a_run_that_nobody_ended_is_lost(self, call):
        open_store().create_run("p", "killed", owner="")
        runs = {run["name"]: run["state"] for run in json.loads(call("runs", "--json")[1])}
        assert runs == {"killed": "running", "r": "finished"}  # of a machine unknown here, that wrote just now


class TestWatch:
    def test_says_what_it_does_and_what_it_skips(self, call):
        for name in ("final", "junk", ".hidden", "checkpoint-3"):
            Path("ckpt", name).mkdir(parents=True)
        code, out, _ = call("watch", "ckpt", "-t", "sums.toml", "--interval", 0.01, "--idle", 0.1)
        assert code == 0
        assert out.splitlines()[0] == (
            "midflight: watching ckpt every 0.01 s for sums; run ckpt in sqlite:///midflight.db"
        )
        assert [line.split(": ")[1:3] for line in out.splitlines()[1:]] == [
            ["final", "skipped"],
            ["junk", "skipped"],
            ["checkpoint-3", "not finished"],
        ]

    def test_a_step_that_nothing_can_hold_stops_nothing(self, call):
        folder = Path("ckpt", f"checkpoint-{10**20}")
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
        code, out, err = call("watch", "ckpt", "-t", "sums.toml", "--interval", 0.01, "--once")
        assert (code, err) == (0, "")
        assert f"checkpoint-{10**20}" in out  # left out, and said so

    def test_a_folder_that_does_not_exist_is_said_to(self, call):
        words = ["watch", "later", "-t", "sums.toml", "--interval", 0.01]
        told = "midflight: later does not exist yet; waiting for it"
        assert call(*words, "--idle", 0.01)[1].splitlines()[0] == told
        assert call(*words[:2], "-t", "no-such-task")[1].splitlines() == [told]  # before anything else is looked at
        code, out, err = call(*words, "--once")
        assert (code, out) == (2, "")
        assert err == "midflight: no folder later; without --once it is waited for\n"
        code, _, err = call("watch", "sums.toml", "-t", "sums.toml")
        assert (code, "got 'sums.toml'; allowed: a folder; it is a file" in err) == (2, True)


class TestCatalogAndSchema:
    def test_a_task_is_printed_as_it_is_and_others_by_their_documentation(self, call):
        assert call("catalog", "arc")[1] == catalog.content("midflight.tasks", "arc")
        assert "class HF: A transformers model" in call("catalog", "hf")[1]
        assert call("catalog", "pass@8") == call("catalog", "pass_at") == call("catalog", "pass@k")

    def test_the_schema_of_a_task_takes_every_ready_made_one(self, call):
        import tomllib

        schema = json.loads(call("schema", "task")[1])
        jsonschema.Draft202012Validator.check_schema(schema)
        for key in catalog.keys("midflight.tasks", ".toml"):
            jsonschema.validate(tomllib.loads(catalog.content("midflight.tasks", key)), schema)
        for bad in ({}, {"extends": "arc", "metrcs": []}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(bad, schema)


def test_control_characters_of_anybody_reach_no_terminal(call):
    nasty = "\x1b]0;owned\x07\u202e[red]"
    Path("rows.jsonl").write_text(json.dumps({"q": nasty, "a": nasty, "bad": nasty}) + "\n")
    Path("nasty.toml").write_text(TASK + f"name = {json.dumps(nasty)}\nslices = {{ {json.dumps(nasty)} = 'bad' }}\n")
    outputs = [
        call("eval", f"fake:{nasty}", "-t", "nasty.toml"),
        call("eval", nasty, "-t", "nasty.toml"),
        call("eval", "fake:x", "-t", nasty),
        call("show", "fake"),
        call("show", "fake", "--items", "--full"),
        call("show", "fake", "--slices"),
        call("show", nasty),
        call("runs"),
        call(nasty),
        call("plot", "fake", "-m", "exact_match", "-o", f"{nasty}.svg"),
    ]
    assert [code for code, _, _ in outputs] == [0, 2, 2, 0, 0, 0, 2, 0, 2, 0]
    for _, out, err in outputs:
        assert not set("\x1b\x07\u202e") & set(out + err)
    assert "\\x1b]0;owned\\x07\\u202e[red]" in outputs[0][1]
