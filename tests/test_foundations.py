"""What everything stands on: errors, configs, the catalog, the environment, the light import."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field

import midflight
from midflight import catalog, environ, errors
from midflight.config import Config, build, merge
from midflight.errors import ConfigError, MidflightError, UnknownKeyError, missing_extra, shorten


def all_errors(kind=MidflightError):
    return [kind, *(e for sub in kind.__subclasses__() for e in all_errors(sub))]


class TestErrors:
    @pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
    def test_each_says_all_and_survives_a_journey(self, kind):
        error = kind("x failed", got="y" * 500, allowed="z", hint="do this")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert str(again) == str(error) == error.message
        assert str(error).startswith("x failed; got 'yyy")
        assert str(error).endswith("…; allowed: z; do this")
        assert len(str(error)) < 300

    def test_the_tree_is_drawn_as_it_is(self):
        assert all(kind.__name__ in errors.__doc__ for kind in all_errors())

    def test_each_is_the_built_in_that_it_refines(self):
        assert issubclass(ConfigError, ValueError)
        assert issubclass(UnknownKeyError, KeyError)
        assert issubclass(errors.MissingExtraError, ImportError)

    def test_a_missing_extra_names_itself(self):
        error = missing_extra("plotting", "plot", ModuleNotFoundError("No module", name="matplotlib"))
        assert str(error) == "plotting needs matplotlib; pip install 'midflight[plot]'"

    def test_hostile_values_are_one_visible_line(self):
        assert shorten("a\nb\x1b[31m\u202ec") == r"a\nb\x1b[31m\u202ec"


class Inner(Config):
    depth: int = Field(default=1, ge=1)


class Outer(Config):
    rate: float
    name: str = "x"
    inner: Inner = Inner()


class TestConfig:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({}, "rate: missing"),
            ({"rate": "0.1"}, r"rate: input should be a valid number \(got '0.1'\)"),
            ({"rate": 0.1, "nmae": "y"}, "unknown key 'nmae'; did you mean 'name'?"),
            ({"rate": 0.1, "zzz": 1}, "unknown key 'zzz'; known keys: inner, name, rate"),
            ({"rate": 0.1, "inner": {"depht": 2}}, "unknown key 'inner.depht'; did you mean 'depth'?"),
            (
                {"rate": 0.1, "inner": {"depth": 0}},
                r"inner.depth: input should be greater than or equal to 1 \(got 0\)",
            ),
            ({"rate": True}, "rate: input should be a valid number"),
        ],
    )
    def test_each_mistake_is_one_line(self, values, message):
        for make in (lambda: Outer(**values), lambda: build(Outer, values, "file.toml")):
            with pytest.raises(ConfigError, match=message.replace("?", r"\?")) as caught:
                make()
            assert "\n" not in str(caught.value)
        assert str(caught.value).startswith("file.toml: ")

    def test_merge(self):
        assert merge({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "b": {"z": 3}}) == {"a": {"x": 1, "y": 2}, "b": {"z": 3}}


class TestCatalog:
    def test_listing_imports_nothing(self):
        code = (
            "import sys; from midflight import catalog\n"
            "assert 'exact_match' in catalog.keys('midflight.metrics'); assert 'gsm8k' in catalog.keys('midflight.tasks', '.toml')\n"
            "assert catalog.summary('midflight.engines', 'hf')\n"
            "bad = [m for m in sys.modules if m.startswith(('midflight.metrics', 'midflight.engines', 'torch', 'numpy'))]; assert not bad, bad"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_a_file_has_to_hold_one_class(self, monkeypatch, tmp_path):
        package = tmp_path / "plugs"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "none.py").write_text("")
        (package / "two.py").write_text("class A(dict): pass\nclass B(dict): pass\nclass _C(dict): pass\n")
        (package / "broken.py").write_text("import nothing_like_this\n")
        (package / "fine.py").write_text("from collections import OrderedDict\nclass Mine(dict): pass\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(catalog, "folder", lambda name: package)
        assert catalog.keys("plugs") == ["broken", "fine", "none", "two"]
        assert catalog.load("plugs", "fine", dict).__name__ == "Mine"
        with pytest.raises(ConfigError, match=r"plugs.none must hold one public dict; got 'none'"):
            catalog.load("plugs", "none", dict)
        with pytest.raises(ConfigError, match="got 'A, B'"):
            catalog.load("plugs", "two", dict)
        with pytest.raises(ModuleNotFoundError, match="nothing_like_this"):  # not "unknown key"
            catalog.load("plugs", "broken", dict)
        with pytest.raises(UnknownKeyError, match=r"unknown key among plugs; got 'fien'; did you mean 'fine'\?"):
            catalog.load("plugs", "fien", dict)


class TestEnviron:
    @pytest.mark.parametrize(
        ("variables", "place"),
        [
            ({}, (0, 1, 0, 0, "plain")),
            ({"RANK": "5", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "GROUP_RANK": "2"}, (5, 16, 1, 2, "torchrun")),
            (
                {
                    "SLURM_PROCID": "3",
                    "SLURM_NTASKS": "4",
                    "SLURM_LOCALID": "1",
                    "SLURM_NODEID": "1",
                    "SLURM_STEP_ID": "0",
                },
                (3, 4, 1, 1, "slurm"),
            ),
            # an allocation without srun is one process, though SLURM_NTASKS says four
            ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1, 0, 0, "plain")),
            (
                {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
                (1, 2, 1, 0, "openmpi"),
            ),
        ],
    )
    def test_places(self, monkeypatch, variables, place):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        found = environ.place()
        assert (found.rank, found.world_size, found.local_rank, found.node, found.launcher) == place
        assert found.is_main == (place[0] == 0)

    @pytest.mark.parametrize(("rank", "size"), [("x", "2"), ("2", "2"), ("-1", "2")])
    def test_broken_variables(self, monkeypatch, rank, size):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", size)
        with pytest.raises(ConfigError):
            environ.place()

    def test_git_state(self, tmp_path):
        assert environ.git_state(tmp_path) == {}
        for words in (
            ["init", "-q"],
            ["-c", "user.name=a", "-c", "user.email=b@c", "commit", "-q", "--allow-empty", "-m", "x"],
        ):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
        state = environ.git_state(tmp_path)
        assert (len(state["commit"]), state["dirty"]) == (40, "no")

    def test_description_is_plain(self):
        import json

        assert json.loads(json.dumps(environ.describe()))["software"]["midflight"] == midflight.__version__


class TestLightness:
    def test_import_loads_nearly_nothing(self):
        code = (
            "import sys; import midflight\n"
            "heavy = {'numpy', 'pydantic', 'torch', 'rich', 'jinja2', 'typer', 'sqlite3', 'asyncio'} & set(sys.modules); assert not heavy, heavy"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_help_loads_no_framework(self):
        code = (
            "import sys\nfrom midflight.cli import app\n"
            "heavy = {'numpy', 'torch', 'jinja2', 'matplotlib', 'openai', 'sqlite3'} & set(sys.modules); assert not heavy, heavy"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_the_core_needs_its_five_dependencies_only(self):
        """What stands in `dependencies` is enough for tasks, the fake engine, the store and the command line."""
        blocked = [
            "torch",
            "transformers",
            "openai",
            "matplotlib",
            "datasets",
            "pyarrow",
            "math_verify",
            "reasoning_gym",
            "scipy",
            "pandas",
        ]
        code = (
            "import sys\n"
            f"sys.modules.update(dict.fromkeys({blocked!r}))\n"
            "import midflight as mf\n"
            "task = mf.Task('t', [{'q': 1}], prompt='{{ q }}', target='1', metrics=['exact_match'])\n"
            "with mf.Run('p', 'r') as run, mf.Evaluator(mf.EvaluatorConfig(freq_steps=1), [task], mf.engines.Fake('1'), run) as ev:\n"
            "    run.log(1, x=1.0); ev.step(1)\n"
            "assert ev.reports[0].estimate('exact_match').value == 1.0\n"
            "for name, extra in (('HF', 'hf'), ('OpenAI', 'openai')):\n"
            "    try: getattr(mf.engines, name); raise SystemExit('no error')\n"
            "    except mf.engines.base.CapabilityError: raise\n"
            "    except ImportError as error: assert f\"pip install 'midflight[{extra}]'\" in str(error), error\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


def test_no_file_is_long():
    """A file past 400 lines, or a function past 60, hides something."""
    import ast

    for path in Path(midflight.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, (path, node.name)
