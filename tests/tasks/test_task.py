"""Items, requests, samples and fingerprints of tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight import catalog
from midflight.errors import ConfigError, TaskError, UnknownKeyError
from midflight.records import Output
from midflight.tasks import Task, load_task, ready_made
from midflight.tasks._template import compile_expression, compile_template
from midflight.tasks.kinds.base import Kind, normalise_messages, seed_of

SUMS = [{"a": a, "b": a + 1, "set": "even" if a % 2 == 0 else "odd"} for a in range(6)]


def sums(**changes) -> Task:
    fields = {"prompt": "{{ a }}+{{ b }}=", "target": "a + b", "metrics": ["exact_match"]}
    return Task("sums", SUMS, **{**fields, **changes})


def test_items_and_requests():
    task = sums(slices={"set": "set"}, cluster="a // 2", id="'n' ~ a")
    first = task.items[0]
    assert (first.id, first.target, first.slices, first.cluster) == ("n0", 1, {"set": "even"}, "0")
    (request,) = task.requests(first, chat=False)
    assert (request.id, request.prompt, request.kind) == ("n0/0/0", "0+1=", "generate")
    (chat,) = task.requests(first, chat=True)
    assert chat.prompt == ({"role": "user", "content": "0+1="},)


def test_samples_have_seeds_of_their_own():
    task = sums(samples=3, sampling={"temperature": 1.0})
    requests = [r for item in task.items for r in task.requests(item, chat=False, seed=5)]
    assert len({r.seed for r in requests}) == 18
    again = [r for item in reversed(task.items) for r in task.requests(item, chat=False, seed=5)]
    assert {r.id: r.seed for r in requests} == {r.id: r.seed for r in again}


class TestFewShot:
    def test_fixed(self):
        task = sums(fewshot={"num": 2})
        assert [task.requests(i, False)[0].prompt for i in task.items[:3]] == [
            "1+2=3\n\n2+3=5\n\n0+1=",  # an item is never its own example
            "0+1=1\n\n2+3=5\n\n1+2=",
            "0+1=1\n\n1+2=3\n\n2+3=",
        ]

    def test_seeded(self):
        one, two, same = (sums(fewshot={"num": 2, "seed": seed}) for seed in (1, 2, 1))
        prompts = [[t.requests(i, False)[0].prompt for i in t.items] for t in (one, two, same)]
        assert prompts[0] == prompts[2] != prompts[1]
        assert len(set(prompts[0])) == 6

    def test_from_another_split(self, tmp_path):
        for split, rows in (("train", '{"q": "7", "a": 7}\n'), ("test", '{"q": "8", "a": 8}\n')):
            (tmp_path / f"{split}.jsonl").write_text(rows)
        source = {"kind": "file", "path": str(tmp_path / "{split}.jsonl"), "split": "test"}
        task = Task(
            "t",
            source,
            prompt="{{ q }}=",
            target="a",
            metrics=["exact_match"],
            fewshot={"num": 1, "split": "train", "answer": "{{ a }}!"},
        )
        assert task.requests(task.items[0], False)[0].prompt == "7=7!\n\n8="

    def test_as_chat(self):
        task = sums(fewshot={"num": 1}, system="Add.")
        assert [m["role"] for m in task.requests(task.items[0], True)[0].prompt] == [
            "system",
            "user",
            "assistant",
            "user",
        ]
        assert task.requests(task.items[0], False)[0].prompt == "Add.\n\n1+2=3\n\n0+1="

    @pytest.mark.parametrize("seed", [None, 3])
    def test_too_few(self, seed):
        """Of a pool of 6 rows, the item itself is none of its examples."""
        for num in (6, 9):
            with pytest.raises(ConfigError, match=rf"fewshot.num; got {num}; allowed: at most 5 examples"):
                sums(fewshot={"num": num, "seed": seed}).requests(sums().items[0], False)
            with pytest.raises(ConfigError, match="at most 5 examples beside the item itself"):
                sums(fewshot={"num": num, "seed": seed}).fingerprint_parts()  # before anything runs
        assert len(sums(fewshot={"num": 5, "seed": seed}).requests(sums().items[0], True)[0].prompt) == 11

    @pytest.mark.parametrize("seed", [None, 1])
    def test_an_item_is_never_its_own_example(self, seed, caplog):
        """Also where the examples are the same rows from a source of their own; that they are evaluated is said."""
        again = {"kind": "function", "function": lambda: [*SUMS, *SUMS]}
        task = sums(fewshot={"num": 4, "seed": seed, "source": again})
        for item in task.items:
            asked = task.requests(item, False)[0].prompt.split("\n\n")
            assert len(asked) == 5
            assert asked[-1] not in {example[: len(asked[-1])] for example in asked[:-1]}
        assert caplog.text.count("6 of the few-shot examples are evaluated too") == 1

    def test_examples_of_their_own_are_no_warning(self, caplog):
        source = {"kind": "function", "function": lambda: [{"a": 70 + a, "b": 1} for a in range(3)]}
        assert sums(fewshot={"num": 3, "source": source}).requests(sums().items[0], False)
        assert caplog.text == ""

    def test_a_function_leaves_no_address_in_the_fingerprint(self):
        def prints(rows):
            return sums(
                fewshot={"num": 1, "source": {"kind": "function", "function": lambda: rows}}
            ).fingerprint_parts()

        assert prints([{"a": 7, "b": 8}]) == prints([{"a": 7, "b": 8}]) != prints([{"a": 7, "b": 9}])

    def test_pairs_take_no_examples(self):
        with pytest.raises(ConfigError, match="a preference pair takes no solved examples"):
            sums(kind="preference", chosen="a", rejected="b", fewshot={"num": 1})

    def test_a_source_without_splits(self):
        with pytest.raises(TaskError, match="has no splits"):
            _ = sums(fewshot={"num": 1, "split": "train"}).examples


class TestGenerate:
    def read(self, output: Output, **changes):
        task = sums(**changes)
        return task.sample(task.items[0], 0, [output])

    @pytest.mark.parametrize(
        ("text", "finish", "prediction", "state"),
        [
            ("so #### 5", "stop", "5", "ok"),
            ("#### 5 no #### 6", "stop", "6", "ok"),
            ("no idea", "stop", None, "unparsed"),
            ("", "stop", None, "unparsed"),
            ("so #### 5 and", "length", "5", "truncated"),
            ("so", "length", None, "truncated"),
        ],
    )
    def test_states(self, text, finish, prediction, state):
        sample = self.read(Output("x", text=text, finish=finish), answer=r"#### (\d+)")
        assert (sample.prediction, sample.state) == (prediction, state)

    def test_first_match(self):
        sample = self.read(Output("x", text="#### 5 no #### 6"), answer=r"#### \d+", answer_pick="first")
        assert sample.prediction == "#### 5"

    def test_answers_are_looked_for_where_they_stand(self):
        """In the last 32,000 characters, or the first: a pattern may take far more than linear time."""
        filler = "x" * 40_000
        assert self.read(Output("", text=f"#### 1{filler}#### 2"), answer=r"#### \d").prediction == "#### 2"
        assert self.read(Output("", text=f"#### 1{filler}"), answer=r"#### \d").prediction is None
        first = self.read(Output("", text=f"#### 1{filler}#### 2"), answer=r"#### \d", answer_pick="first")
        assert first.prediction == "#### 1"

    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("The answer is 7.", "7"),
            ("the answer is: x = 3.5. \nfoo", "x = 3.5"),
            ("answer is 7\n<answer> 8 </answer>", "8"),
            ("answer is" + " " * 50_000 + "x", None),
            ("answer is" + " " * 30_000, None),
        ],
        ids=["plain", "colon", "tags", "cut", "blank"],
    )
    def test_the_pattern_of_reasoning_gym(self, text, answer):
        pattern = load_task("reasoning_gym:chain_sum").spec.answer
        assert self.read(Output("", text=text), answer=pattern).prediction == answer

    def test_an_error_is_no_answer(self):
        sample = self.read(Output("x", error="no connection"))
        assert (sample.state, sample.note, sample.prediction) == ("error", "no connection", None)

    def test_nothing_is_not_run(self):
        task = sums()
        assert task.sample(task.items[0], 0, [None]).state == "not_run"

    def test_turns(self):
        class Talk(Task):
            def follow_up(self, item, turns):
                return None if turns[-1].text == "1" or len(turns) == 3 else " no:"

        task = Talk("sums", SUMS, prompt="{{ a }}+{{ b }}=", target="a + b", metrics=["exact_match"])
        item, (request,) = task.items[0], task.requests(task.items[0], False)
        turns = [Output("", text="7")]
        second = task.next_request(item, request, turns, 0)
        assert (second.id, second.prompt) == ("000000/0/1", "0+1=7 no:")
        assert second.seed != request.seed
        assert task.next_request(item, second, [*turns, Output("", text="1")], 0) is None
        assert task.next_request(item, second, [*turns, Output("", error="x")], 0) is None
        (chat,) = task.requests(item, True)
        assert task.next_request(item, chat, turns, 0).prompt[-2:] == (
            {"role": "assistant", "content": "7"},
            {"role": "user", "content": " no:"},
        )


class TestMultipleChoice:
    rows = [{"q": "Sky?", "c": ["red", "blue"], "g": 1}]

    def task(self, **changes):
        fields = {
            "kind": "multiple_choice",
            "prompt": "{{ q }}",
            "choices": "c",
            "target": "g",
            "metrics": ["choice_accuracy"],
        }
        return Task("mc", self.rows, **{**fields, **changes})

    def test_a_request_a_choice(self):
        task = self.task()
        assert [(r.prompt, r.continuation) for r in task.requests(task.items[0], False)] == [
            ("Sky?", " red"),
            ("Sky?", " blue"),
        ]

    def test_the_likeliest_wins_and_ties_go_to_the_first(self):
        task = self.task()
        for values, wanted in (([-2.0, -1.0], 1), ([-1.0, -1.0], 0), ([float("-inf"), -9.0], 1)):
            sample = task.sample(task.items[0], 0, [Output("", logprob=v) for v in values])
            assert (sample.prediction, sample.choices) == (wanted, ("red", "blue"))

    def test_nan_is_an_error_not_a_choice(self):
        task = self.task()
        sample = task.sample(task.items[0], 0, [Output("", logprob=float("nan")), Output("", logprob=-1.0)])
        assert (sample.state, sample.note) == ("error", "log-probability is NaN")

    @pytest.mark.parametrize("gold", ["2", "-1", "q", "1.5", "g > 0"])
    def test_a_target_that_is_no_index(self, gold):
        with pytest.raises(TaskError, match=r"target: not the index of a choice; got .*; allowed: 0 to 1"):
            _ = self.task(target=gold).items

    def test_text_digits_are_an_index(self):
        assert self.task(target="'1'").items[0].target == 1

    @pytest.mark.parametrize("choices", ["q", "c[:1]", "g"])
    def test_choices_that_are_none(self, choices):
        with pytest.raises(TaskError, match="choices: not a list of two or more"):
            _ = self.task(choices=choices).items


class TestPreference:
    @pytest.mark.parametrize(
        ("row", "fields"),
        [
            ({"p": "Hi", "c": "Hello", "r": "Go"}, {"prompt": "{{ p }}"}),
            (
                {
                    "m": [{"from": "human", "value": "Hi"}],
                    "c": {"from": "gpt", "value": "Hello"},
                    "r": {"from": "gpt", "value": "Go"},
                },
                {"messages": "m"},
            ),
            (
                {
                    side: [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": a}]
                    for side, a in (("c", "Hello"), ("r", "Go"))
                },
                {},
            ),
            (
                {side: f"\n\nHuman: Hi\n\nAssistant: {answer}" for side, answer in (("c", "Hello"), ("r", "Go"))},
                {"chosen": "c|hh_messages", "rejected": "r|hh_messages"},
            ),
        ],
        ids=["texts", "sharegpt", "whole conversations", "hh transcripts"],
    )
    def test_all_forms_of_datasets_give_the_same_conversations(self, row, fields):
        task = Task(
            "p", [row], kind="preference", metrics=["pairwise_accuracy"], **{"chosen": "c", "rejected": "r", **fields}
        )
        chosen, rejected = task.requests(task.items[0], True)
        assert chosen.prompt == ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"})
        assert rejected.prompt[-1] == {"role": "assistant", "content": "Go"}
        assert chosen.kind == "reward"

    def test_by_likelihood_for_dpo(self):
        task = Task(
            "p",
            [{"p": "Hi", "c": "Hello", "r": "Go"}],
            kind="preference",
            prompt="{{ p }}",
            chosen="c",
            rejected="r",
            scored_by="loglikelihood",
            metrics=["pairwise_accuracy"],
        )
        chosen, _ = task.requests(task.items[0], True)
        assert (task.capability, chosen.kind, chosen.continuation) == ("loglikelihood", "loglikelihood", "Hello")
        assert chosen.prompt == ({"role": "user", "content": "Hi"},)

    def test_by_likelihood_per_token(self):
        """By the sum the shorter answer wins, by the mean the likelier one."""
        outputs = [Output("", logprob=-6.0, num_tokens=6), Output("", logprob=-4.0, num_tokens=2)]
        for by, margin in (("loglikelihood", -2.0), ("loglikelihood_per_token", 1.0)):
            task = Task(
                "p",
                [{"c": "a", "r": "b"}],
                kind="preference",
                prompt="x",
                chosen="c",
                rejected="r",
                scored_by=by,
                metrics=["pairwise_accuracy"],
            )
            assert task.capability == "loglikelihood"
            assert task.sample(task.items[0], 0, outputs).prediction == margin
        lost = task.sample(task.items[0], 0, [Output("", logprob=-1.0)] * 2)
        assert (lost.state, lost.note) == ("error", "the engine counts no tokens")

    def test_margin(self):
        task = Task(
            "p",
            [{"c": "a", "r": "b"}],
            kind="preference",
            prompt="x",
            chosen="c",
            rejected="r",
            metrics=["reward_mean"],
        )
        assert task.sample(task.items[0], 0, [Output("", reward=2.0), Output("", reward=-1.0)]).prediction == 3.0
        nan = task.sample(task.items[0], 0, [Output("", reward=float("nan")), Output("", reward=-1.0)])
        assert (nan.state, nan.note) == ("error", "reward is NaN")
        inf = task.sample(task.items[0], 0, [Output("", reward=float("inf"))] * 2)
        assert (inf.state, inf.note) == ("error", "margin is NaN")

    @pytest.mark.parametrize("bad", [3, [3], [{"role": "user"}], [{"role": "user", "content": 3}]])
    def test_what_is_no_conversation(self, bad):
        with pytest.raises(TaskError, match="not a"):
            normalise_messages(bad, "user")


class TestSpec:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"metrics": []}, "a task without a metric measures nothing"),
            ({"metrics": ["exact_match", "exact_match"]}, "a metric is named twice"),
            ({"promt": "x"}, r"unknown key 'promt'; did you mean 'prompt'\?"),
            ({"samples": 0}, "samples: .*greater than or equal to 1"),
            ({"samples": "3"}, "samples: .*valid integer"),
            ({"samples": 4, "sampling": {"temperature": 1.0}, "kind": "loglikelihood", "text": "x"}, "samples; got 4"),
            ({"samples": 4}, "several samples of a greedy answer are all the same"),
            ({"sampling": {"temperature": -1}}, "sampling.temperature"),
            ({"sampling": {"temprature": 1}}, r"unknown key 'sampling.temprature'; did you mean 'temperature'\?"),
            ({"sampling": {"top_p": 0.0}}, "sampling.top_p"),
            ({"messages": "m"}, "give `prompt` or `messages`, not both"),
            ({"prompt": "", "messages": "m", "chat": "never"}, "`messages` need chat"),
            ({"chat": "sometimes"}, "chat: .*'auto', 'always' or 'never'"),
        ],
    )
    def test_what_is_refused(self, changes, message):
        with pytest.raises(ConfigError, match=message):
            sums(**changes)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"prompt": "{{ a"}, "prompt: not a valid template"),
            ({"target": "a +"}, "target: not a valid expression"),
            ({"answer": "("}, "answer: not a valid regular expression"),
            ({"prompt": ""}, "needs `prompt` or `messages`"),
            ({"kind": "multiple_choice"}, "of kind 'multiple_choice' needs `choices`"),
            ({"kind": "loglikelihood"}, "needs `text`"),
            ({"kind": "preference"}, "needs `chosen`"),
        ],
    )
    def test_what_cannot_be_built(self, changes, message):
        with pytest.raises(TaskError, match=message):
            sums(**changes)

    def test_unknown_kind(self):
        with pytest.raises(UnknownKeyError, match="did you mean 'generate'"):
            sums(kind="generat")

    def test_metrics_is_required(self):
        with pytest.raises(ConfigError, match="metrics: missing"):
            Task("t", SUMS, prompt="x")


class TestTemplates:
    def test_templates_are_sandboxed(self):
        for attack in (
            "{{ ''.__class__.__mro__ }}",
            "{{ a.__init__.__globals__ }}",
            "{% for i in range(10**9) %}x{% endfor %}",
        ):
            with pytest.raises(TaskError):
                compile_template(attack, "prompt")({"a": 1})
        with pytest.raises(TaskError):
            compile_expression("(1).__class__.__base__.__subclasses__()", "target")({})

    @pytest.mark.parametrize(
        "bomb",
        [
            "{{ 10 ** (10 ** 10) }}",
            "{{ 'x' * 10 ** 10 }}",
            "{{ 10 ** 10 * [0] }}",
            "{{ 'x'.ljust(10 ** 9) }}",
            "{% set pad = 'x'.ljust %}{{ pad(10 ** 9) }}",
            "{{ 'x'|center(10 ** 9) }}",
            "{{ [1, 2]|map('center', 10 ** 9)|list }}",
            "{{ '%1000000000d'|format(3) }}",
            "{{ '%*d' % (10 ** 9, 3) }}",
            "{{ '{:1000000000}'.format(3) }}",
            "{{ '{:{}}'.format(3, 10 ** 9) }}",
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "{% for i in q %}{% for j in q %}{% for k in q %}{% endfor %}{% endfor %}{% endfor %}",
            "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
            *(
                "{% set ns = namespace(x='ab') %}{% for i in range(40) %}{% set ns.x = " + twice + " %}{% endfor %}"
                for twice in (
                    "ns.x ~ ns.x",
                    "ns.x + ns.x",
                    "ns.x * 2",
                    "ns.x.replace('', ns.x)",
                    "ns.x.join([ns.x, ns.x, ns.x])",
                    "[ns.x, ns.x, ns.x]|join(ns.x)",
                    "[ns.x, ns.x]|join",
                )
            ),
            "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
            "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        ],
    )
    def test_what_would_take_all_time_or_memory_is_refused(self, bomb):
        with pytest.raises(TaskError, match=r"prompt: (more than|a text or list of|a number of|a width)"):
            compile_template(bomb, "prompt")({"q": "y" * 1000})

    def test_what_is_of_ordinary_size_is_not(self):
        row = {"q": "a b", "c": ["x", "y"], "n": 3}
        for text, wanted in (
            ("{% for x in c %}{{ loop.index }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "1x,2y"),
            (
                "{% for x in [1, 2] %}{{ x }}{% endfor %}{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}",
                "12a1",
            ),
            ("{{ '%.2f' % n }} {{ '%d'|format(n) }} {{ '{:>4}'.format(n) }} {{ 'x'|center(3) }}", "3.00 3    3  x "),
            ("{{ n * 2 + n ** 2 }}{{ q ~ n ~ c[0] }}{{ 'ab' * 2 }}{{ c + ['z'] }}", "15a b3xabab['x', 'y', 'z']"),
            (
                "{{ q.split() | join('-') }}{{ q|replace('a', 'b') }}{{ ', '.join(c) }}{{ range(n)|list }}",
                "a-bb bx, y[0, 1, 2]",
            ),
        ):
            assert compile_template(text, "prompt")(row) == wanted
        assert compile_template("{{ q }}", "prompt")({"q": "x" * 4_000_000}) == "x" * 4_000_000
        assert compile_expression("[10 ** 6, 7].index(7)", "target")({}) == 1

    def test_rows_cannot_inject_templates(self):
        assert compile_template("{{ q }}", "prompt")({"q": "{{ 7 * 7 }}"}) == "{{ 7 * 7 }}"

    def test_expressions_give_values(self):
        assert compile_expression("c.text", "choices")({"c": {"text": ["x", "y"]}}) == ["x", "y"]
        assert compile_expression("n|last_number", "t")({"n": "about 1,234.5 or -7"}) == "-7"

    @given(st.text(alphabet=" as'\"()[]{}=@-.,:;!?N\n°/3", max_size=40))
    def test_wikitext_is_detokenized_as_lm_evaluation_harness_does(self, text):
        lm_eval = pytest.importorskip("lm_eval.tasks.wikitext.preprocess_wikitext")
        ours = compile_template("{{ page|wikitext_detokenize }}", "text")({"page": text})
        assert ours == lm_eval.wikitext_detokenizer({"page": text})

    @given(st.text(alphabet=" a[]tile.\n", max_size=40))
    def test_wikihow_is_cleaned_as_lm_evaluation_harness_does(self, text):
        lm_eval = pytest.importorskip("lm_eval.tasks.hellaswag.utils")
        assert compile_template("{{ t|wikihow_clean }}", "prompt")({"t": text}) == lm_eval.preprocess(text)


class TestFingerprint:
    def test_only_what_matters_changes_it(self):
        base = sums().fingerprint_parts()
        assert sums(description="other").fingerprint_parts() == base
        changed = {
            "prompt": [{"prompt": "{{ a }} + {{ b }} ="}, {"system": "x"}, {"fewshot": {"num": 1}}, {"version": "2"}],
            "sampling": [{"sampling": {"max_tokens": 9}}, {"sampling": {"temperature": 1.0}, "samples": 2}],
            "answer": [{"answer": r"\d+"}],
            "items": [{"target": "a"}, {"slices": {"s": "set"}}, {"id": "a"}],
        }
        for part, changes in changed.items():
            for change in changes:
                parts = sums(**change).fingerprint_parts()
                assert parts[part] != base[part], change

    def test_the_order_of_rows_does_not_matter_where_they_have_ids(self):
        one, other = (Task("t", rows, id="a", prompt="{{ a }}", metrics=["exact_match"]) for rows in (SUMS, SUMS[::-1]))
        assert one.fingerprint_parts() == other.fingerprint_parts()

    def test_a_value_without_a_stable_text_is_refused(self):
        task = Task("t", [{"a": object()}], prompt="x", metrics=["exact_match"])
        with pytest.raises(TaskError, match="a column holds a value without a stable text; got 'object'"):
            task.fingerprint_parts()

    def test_limits_differ(self):
        task = sums()
        drawn = task.limited(3, seed=1)
        assert [i.id for i in drawn.items] == sorted(i.id for i in drawn.items)
        prints = {t.fingerprint_parts()["items"] for t in (task, task.limited(2), drawn, task.limited(3, seed=2))}
        assert len(prints) == 4
        assert task.limited(99).fingerprint_parts() == task.fingerprint_parts()
        with pytest.raises(TaskError, match="limit; got 0"):
            task.limited(0)


class TestLimit:
    def test_it_is_a_draw_of_the_same_items_in_whatever_order_they_stand(self):
        for fields in ({"id": "a"}, {}):
            for seed in (0, 1):
                one = [i.row for i in sums(**fields).limited(3, seed).items]
                task = Task("t", SUMS[::-1], prompt="{{ a }}", metrics=["exact_match"], **fields)
                assert [i.row for i in task.limited(3, seed).items][::-1] == one
        draws = {tuple(i.id for i in sums().limited(3, seed).items) for seed in range(20)}
        assert len(draws) > 8
        assert [i.id for i in sums().limited(3).items] == ["000001", "000002", "000003"]  # seed 0 draws, too

    def test_a_smaller_one_is_part_of_a_larger_one(self):
        small, large = ({i.id for i in sums().limited(n, 5).items} for n in (2, 4))
        assert small < large

    def test_in_python_and_in_a_task_file(self, tmp_path):
        (tmp_path / "rows.jsonl").write_text("".join(f'{{"q": "{n}"}}\n' for n in range(9)))
        (tmp_path / "t.toml").write_text(
            'source = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}"\nmetrics = ["response_length"]\n'
            "limit = 4\nlimit_seed = 7\n"
        )
        whole = Task("t", tmp_path / "rows.jsonl", prompt="{{ q }}", metrics=["response_length"])
        by_file = load_task(str(tmp_path / "t.toml"))
        wanted = [item.id for item in whole.limited(4, 7).items]
        assert [item.id for item in by_file.items] == [i.id for i in load_task(whole, limit=4, seed=7).items] == wanted
        assert len(load_task(str(tmp_path / "t.toml"), limit=2).items) == 2
        assert len(by_file.limited(None).items) == 9
        assert by_file.settings.limit == 4
        with pytest.raises(ConfigError, match="limit: .*greater than or equal to 1"):
            sums(limit=0)


class TestTexts:
    """What is not valid Unicode fits no database and no tokenizer: it is refused with its row."""

    @pytest.mark.parametrize(
        ("row", "place"),
        [
            ({"q": "a\ud800"}, "q"),
            ({"q": "a", "m": [{"content": "\udfff"}]}, r"m\[0\]\.content"),
            ({"q": "a", "\ud800": 1}, "a column name"),
        ],
    )
    def test_in_a_row(self, row, place, tmp_path):
        import json

        (tmp_path / "r.jsonl").write_text('{"q": "fine \\ud83d\\ude00"}\n' + json.dumps(row) + "\n")
        task = Task("t", tmp_path / "r.jsonl", prompt="{{ q }}", metrics=["exact_match"])
        with pytest.raises(TaskError, match=rf"r\.jsonl:2: {place}: not valid Unicode: half of a surrogate pair"):
            _ = task.items

    @pytest.mark.parametrize("field", ["id", "cluster", "target", "slices"])
    def test_of_an_expression(self, field):
        half = "'\\ud800' ~ a"
        with pytest.raises(TaskError, match=rf"rows\[0\]: {field}.*: not valid Unicode"):
            _ = sums(**{field: {"s": half} if field == "slices" else half}).items

    def test_in_the_task_itself(self):
        with pytest.raises(TaskError, match="prompt: not valid Unicode"):
            sums(prompt="{{ a }}\ud800")


def test_settings_are_json_whatever_a_function_is_given():
    import functools
    import json

    for function, name in ((lambda extra: SUMS, "<lambda>"), (functools.partial(lambda extra: SUMS), "partial")):
        source = {"kind": "function", "function": function, "options": {"extra": object()}}
        task = Task("t", source, prompt="{{ a }}", metrics=["exact_match"])
        assert len(task.items) == 6
        wanted = {"kind": "function", "function": name, "options": {"extra": "object"}}
        assert json.loads(json.dumps(task.settings.source)) == wanted


def test_what_is_none_is_not_the_text_none():
    rows = [{"q": n, "c": None if n < 2 else "x"} for n in range(4)]
    task = Task("t", rows, prompt="{{ q }}", cluster="c", slices={"c": "c"}, metrics=["exact_match"])
    assert [(item.cluster, item.slices) for item in task.items] == [(None, {})] * 2 + [("x", {"c": "x"})] * 2
    with pytest.raises(TaskError, match=r"rows\[0\]: id; got None"):
        _ = Task("t", rows, id="c", prompt="{{ q }}", metrics=["exact_match"]).items


def test_seeds_are_independent_of_the_machine():
    assert seed_of(0, "item", 1, 2) == 2609406096089026322
    assert len({seed_of(s, i, j) for s in range(3) for i in range(10) for j in range(10)}) == 300


@pytest.mark.parametrize("key", catalog.keys("midflight.tasks.kinds"))
def test_every_kind_keeps_the_contract(key):
    """One attempt ends in one state, and what is missing is never an answer."""
    fields = {
        "prompt": "{{ q }}",
        "target": "0",
        "choices": "['a', 'b']",
        "text": "{{ q }}",
        "chosen": "q",
        "rejected": "q",
    }
    task = Task("t", [{"q": "x"}], kind=key, metrics=["response_length"], **fields)
    assert isinstance(task.kind, Kind)
    (item,) = task.items
    requests = task.requests(item, chat=False)
    assert len({r.id for r in requests}) == len(requests)
    assert all(r.item_id == item.id and r.kind == task.capability for r in requests)
    assert task.sample(item, 0, [None] * len(requests)).state == "not_run"
    assert task.sample(item, 0, [Output(r.id, error="x") for r in requests]).state == "error"
    answered = [Output(r.id, text="a", logprob=-1.0, reward=1.0) for r in requests]
    assert task.sample(item, 0, answered).state == "ok"


class TestLoading:
    def test_a_file_that_extends_a_ready_made_task(self, tmp_path):
        (tmp_path / "rows.jsonl").write_text('{"query": "Sky?", "options": ["red", "blue"], "gold": 1}\n')
        (tmp_path / "sky.toml").write_text(
            'extends = "arc"\nid = "query"\nprompt = "{{ query }}"\nchoices = "options"\ntarget = "gold"\n'
            'source = { kind = "file", path = "rows.jsonl" }\n'
        )
        task = load_task(str(tmp_path / "sky.toml"))
        assert (task.name, task.spec.kind, task.spec.metrics) == (
            "sky",
            "multiple_choice",
            ("choice_accuracy", "choice_accuracy_norm"),
        )
        assert [item.id for item in task.items] == ["Sky?"]

    def test_a_python_object(self, tmp_path):
        (tmp_path / "mine.py").write_text(
            "from midflight import Task\n"
            "def make():\n    return Task('mine', [{'q': 1}], prompt='{{ q }}', metrics=['response_length'])\n"
            "nothing = 3\n"
        )
        assert load_task(f"{tmp_path}/mine.py:make").name == "mine"
        with pytest.raises(TaskError, match="not a Task, nor a function that returns one; got 3"):
            load_task(f"{tmp_path}/mine.py:nothing")
        with pytest.raises(TaskError, match="no such Python file"):
            load_task(f"{tmp_path}/other.py:make")

    def test_a_folder_with_a_copy(self, tmp_path):
        """As the Hub has it: the file of the task's configuration and split; or the only file that there is."""
        row = '{"question": "1+1?", "answer": "Two. #### %s"}\n'
        for place, answer in (("main/test-00000-of-00001", 2), ("main/train-00000-of-00001", 3), ("other/test", 4)):
            (tmp_path / "hub" / place).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "hub" / f"{place}.jsonl").write_text(row % answer)
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / "gsm8k_rows.jsonl").write_text(row % 5)
        for folder, target in ((f"{tmp_path}/hub/", "2"), (f"{tmp_path}/hub", "2"), (f"{tmp_path}/one/", "5")):
            assert [item.target for item in load_task(f"gsm8k@{folder}").items] == [target]
        with pytest.raises(TaskError, match=r"several files could be meant: main/test.*name one: NAME@FOLDER/FILE"):
            load_task(f"math500@{tmp_path}/hub")
        (tmp_path / "empty").mkdir()
        with pytest.raises(TaskError, match="no data files in this folder"):
            load_task(f"gsm8k@{tmp_path}/empty")

    @pytest.mark.parametrize("name", ["gsm8k@", "@rows.jsonl", "@"])
    def test_half_of_a_name(self, name):
        with pytest.raises(ConfigError, match="allowed: NAME@PATH: a task, and a file or folder"):
            load_task(name)

    def test_a_python_task_takes_no_other_rows(self):
        with pytest.raises(ConfigError, match="brings its own rows: leave out @PATH"):
            load_task("mine.py:make@rows.jsonl")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('source = "rows.jsonl"', r"t\.toml: source; got 'rows.jsonl'; allowed: a table, e.g. source = \{ kind"),
            ('source = "some path"', r"t\.toml: source; got 'some path'; allowed: a table"),
            ("source = { kind = 'file', path = 5 }", r"t\.toml: source.path; got 5; allowed: a text"),
            ("source = { kind = 'file', path = 'x' }\nfewshot = 3", r"t\.toml: fewshot; got 3; allowed: a table, e.g."),
            ("source = { kind = 'file', path = 'x' }\nfewshot = { source = 'x' }", "fewshot.source; got 'x'"),
            ('extends = "gsm8k"\nsource = 3', "source; got 3"),
            ('extends = "t.toml"', r"t\.toml: extends itself"),
            ("extends = 3", "extends; got 3"),
            ("source = { kind = 'function', function = 'os:getcwd' }", "a task file runs no code"),
            (
                "source = { kind = 'file', path = 'x' }\nfewshot = { num = 1, source = { kind = 'function', function = 'os:getcwd' } }",
                "a task file runs no code",
            ),
            ("source = { kind = 'file', path = 'x' }\nself = 1", "unknown key 'self'"),
        ],
    )
    def test_task_files_that_are_wrong(self, text, message, tmp_path):
        (tmp_path / "t.toml").write_text(f'prompt = "x"\nmetrics = ["exact_match"]\n{text}\n')
        with pytest.raises(ConfigError, match=message):
            _ = load_task(str(tmp_path / "t.toml")).examples

    def test_what_there_is_not(self, tmp_path):
        with pytest.raises(UnknownKeyError, match="did you mean 'gsm8k'"):
            load_task("gsm8")
        with pytest.raises(TaskError, match="no such file"):
            load_task("gsm8k@/nowhere.jsonl")
        with pytest.raises(ConfigError, match=r"cannot be read as TOML: .*line 1"):
            (tmp_path / "bad.toml").write_text("kind = = 1")
            load_task(str(tmp_path / "bad.toml"))
        with pytest.raises(ConfigError, match=r"none\.toml: cannot be read as TOML: No such file"):
            load_task(str(tmp_path / "none.toml"))
        with pytest.raises(TaskError, match=r"\[source\] is missing"):
            (tmp_path / "empty.toml").write_text('prompt = "x"')
            load_task(str(tmp_path / "empty.toml"))


LOCAL = {
    "gsm8k": ("gsm8k_test.jsonl", 1319, "18"),
    "math500": ("math500_test.jsonl", 500, r"\left( 3, \frac{\pi}{2} \right)"),
    "aime24": ("aime24_test.jsonl", 30, "204"),
    "amc23": ("amc23_test.jsonl", 40, 27.0),
    "mmlu": ("mmlu_stem_test.jsonl", 3018, 2),
}


@pytest.mark.data
@pytest.mark.parametrize("name", LOCAL)
def test_ready_made_tasks_on_real_data(name, data):
    file, count, target = LOCAL[name]
    task = load_task(f"{name}@{data / 'benchmarks' / file}")
    assert (len(task.items), task.items[0].target) == (count, target)
    assert all(task.requests(item, chat=True) for item in task.items)


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "fields", "count"),
    [
        ("arc_challenge.jsonl", {"prompt": "{{ query }}\nAnswer:", "target": "gold"}, 1172),
        ("commonsense_qa.jsonl", {"prompt": "{{ query }}", "target": "gold"}, 1221),
        ("copa.jsonl", {"prompt": "{{ query }}", "target": "gold"}, 100),
        (
            "ceval_val_accountant.csv",
            {"prompt": "{{ question }}", "choices": "[A, B, C, D]", "target": "'ABCD'.index(answer)"},
            49,
        ),
    ],
)
def test_a_task_says_where_its_fields_are(file, fields, count, data):
    task = Task(
        "t",
        data / "benchmarks" / file,
        kind="multiple_choice",
        metrics=["choice_accuracy"],
        **{"choices": "choices", **fields},
    )
    assert len(task.items) == count
    assert all(len(task.requests(item, False)) >= 2 for item in task.items)


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "fields", "count"),
    [
        ("openinstruct_preference_sample.jsonl", {}, 100),
        ("dpo_en_demo.json", {"messages": "conversations"}, 300),
    ],
)
def test_preference_pairs_of_both_shapes(file, fields, count, data):
    task = Task(
        "t",
        data / "benchmarks" / file,
        kind="preference",
        chosen="chosen",
        rejected="rejected",
        metrics=["pairwise_accuracy"],
        **fields,
    )
    assert len(task.items) == count
    for item in task.items:
        chosen, rejected = task.requests(item, True)
        assert chosen.prompt[0]["role"] in ("user", "system")
        assert chosen.prompt[-1]["role"] == rejected.prompt[-1]["role"] == "assistant"


HUB_ROWS = {
    "aime25": {"problem": "Find x.", "answer": "70", "id": "0"},
    "arc": {"id": "q1", "question": "Why?", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"},
    "hellaswag": {
        "activity_label": "Roof",
        "ctx_a": "A man.",
        "ctx_b": "he",
        "endings": ["sits [step]", "flies"],
        "label": "1",
    },
    "wikitext": {"page": " = Title = \n\n Some text . \n"},
    "rewardbench": {"prompt": "Hi", "chosen": "Hello", "rejected": "Go", "subset": "chat", "id": 3},
    "hh_rlhf": {"chosen": "\n\nHuman: Hi\n\nAssistant: Hello", "rejected": "\n\nHuman: Hi\n\nAssistant: Go"},
}


def test_every_ready_made_task_reads_rows_as_the_hub_has_them(tmp_path):
    import json

    assert set(ready_made()) == set(LOCAL) | set(HUB_ROWS)
    for name, row in HUB_ROWS.items():
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
        task = load_task(f"{name}@{tmp_path / name}.jsonl")
        assert len(task.items) == 1, name
        assert task.requests(task.items[0], task.uses_chat(True)), name
    hellaswag = load_task(f"hellaswag@{tmp_path}/hellaswag.jsonl")
    first = hellaswag.requests(hellaswag.items[0], False)[0]
    assert (first.prompt, first.continuation) == ("Roof: A man. He", " sits ")
