"""The object in the training loop: when it measures, and that training does not notice."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch

import midflight as mf
from conftest import tiny_llama
from midflight.dispatch import untouched
from midflight.errors import CapabilityError, ConfigError, EvaluationError
from midflight.records import Progress

SUMS = [{"a": a, "b": a + 1} for a in range(8)]


def sums(name="sums", **changes) -> mf.Task:
    fields = {"prompt": "{{ a }}+{{ b }}=", "target": "a + b", "metrics": ["exact_match"]}
    return mf.Task(name, SUMS, **{**fields, **changes})


def evaluator(engine=None, **config) -> mf.Evaluator:
    return mf.Evaluator(mf.EvaluatorConfig(**config), [sums()], engine or mf.engines.Fake("1"), quiet=True)


def measured(ev: mf.Evaluator) -> list[int]:
    return [report.progress.step for report in ev.reports]


class TestWhen:
    def test_first_multiples_and_last_each_once(self):
        """Defects 2 and 6: the first weights before any update, the last ones guaranteed."""
        order = []
        ev = evaluator(mf.engines.Fake(lambda r: order.append("eval") or "1"), freq_steps=7, eval_before_train=True)
        with ev:
            for step in range(1, 21):
                order.append("update")
                ev.step(step)
        assert measured(ev) == [0, 7, 14, 20]
        assert order.index("eval") == 0

    def test_the_last_is_not_measured_twice(self):
        ev = evaluator(freq_steps=5)
        with ev:
            for step in range(1, 11):
                ev.step(step)
        ev.finish()
        assert measured(ev) == [5, 10]

    def test_without_triggers_the_last_weights_are_measured(self):
        ev = evaluator()
        with ev:
            for step in range(1, 4):
                ev.step(step)
        assert measured(ev) == [3]

    def test_start_and_finish_by_hand(self):
        ev = evaluator(freq_steps=2, eval_before_train=True)
        ev.start()
        reports = [ev.step(step) for step in range(1, 4)]
        assert [len(r) for r in reports] == [0, 1, 0]
        assert len(ev.finish()) == 1
        assert measured(ev) == [0, 2, 3]

    def test_a_crash_in_training_measures_nothing_more(self):
        ev = evaluator(freq_steps=2)
        with pytest.raises(ZeroDivisionError), ev:
            ev.step(1)
            raise ZeroDivisionError
        assert measured(ev) == []

    def test_epochs_tokens_and_callables(self):
        ev = evaluator(freq_epochs=1, freq_tokens=1000, when=lambda p: p.step == 3)
        ev.start()
        for step in range(1, 13):
            ev.step(step, epoch=step / 6, tokens=step * 220)
        assert measured(ev) == [3, 5, 6, 10, 12]

    def test_steps_per_epoch_place_whole_epochs(self):
        ev = evaluator(freq_epochs=1, steps_per_epoch=4)
        ev.start()
        for step in range(1, 9):
            ev.step(step, epoch=(step - 1) // 4)
        assert measured(ev) == [4, 8]

    def test_should_evaluate(self):
        ev = evaluator(freq_steps=2, eval_before_train=True)
        asked = [
            (step, ev.should_evaluate(epoch=0, step=step), ev.should_evaluate(epoch=0, step=step)) for step in range(6)
        ]
        assert asked == [(s, s % 2 == 0, s % 2 == 0) for s in range(6)]


class TestResume:
    def test_state_survives_a_restart_in_the_middle_of_an_interval(self):
        first = evaluator(freq_steps=10, eval_before_train=True)
        first.start()
        for step in range(1, 14):
            first.step(step)
        second = evaluator(freq_steps=10)
        second.load_state_dict(first.state_dict())
        second.start()
        for step in range(14, 26):
            second.step(step)
        second.finish()
        assert (measured(first), measured(second)) == ([0, 10], [20, 25])

    def test_defect_3_an_evaluation_lost_in_a_crash_is_made_up_before_the_next_update(self):
        """AReaL saves its state before it evaluates; whoever saves so here loses nothing."""
        ev = evaluator(freq_steps=10)
        ev.start()
        for step in range(1, 10):
            ev.step(step)
        ev.freq_ctl.is_due(Progress(10))  # due at 10, state is saved, then the crash
        state = ev.state_dict()
        again = evaluator(freq_steps=10)
        again.load_state_dict(state)
        again.start()
        assert measured(again) == [10]

    def test_a_resume_that_was_not_told_of_is_said_and_makes_nothing_up(self, caplog):
        ev = evaluator(freq_steps=100)
        ev.start()
        for step in range(401, 501):
            ev.step(step)
        assert measured(ev) == [500]
        assert "the first step is 401: training was resumed, but the evaluator was not told" in caplog.text

    def test_start_at_a_step_adds_no_point_off_the_grid(self):
        ev = evaluator(freq_steps=100, eval_before_train=True)
        ev.start(step=437)
        for step in range(438, 511):
            ev.step(step)
        ev.finish()
        assert measured(ev) == [500, 510]

    def test_time_between_two_attempts_is_not_time_of_training(self, monkeypatch):
        with mf.Run("p", "r") as run:
            run.log(1, loss=1.0)
        store = mf.open_store()
        with store.database.writing() as db:  # an hour of training a day ago
            db.execute("UPDATE run SET created = created - 90000, heartbeat = heartbeat - 86400, finished = 1")
            db.execute("UPDATE attempt SET started = started - 90000")
        again = mf.Run("p", "r", resume="must")
        assert again.info.earlier_seconds == pytest.approx(3600, abs=5)
        assert 3600 <= again.seconds + 5 <= 3660
        again.finish()
        assert mf.Run("p", "r", resume="must").info.earlier_seconds == pytest.approx(3600, abs=20)

    def test_a_foreign_state(self):
        with pytest.raises(ConfigError, match="not a state of an Evaluator"):
            evaluator().load_state_dict({"x": 1})

    def test_a_run_that_is_restarted_evaluates_nothing_twice(self):
        engine = mf.engines.Fake("1")
        for _ in range(2):
            run = mf.Run("p", "r", resume="must" if mf.open_store().runs() else "auto")
            ev = mf.Evaluator(
                mf.EvaluatorConfig(freq_steps=5, eval_before_train=True), [sums()], engine, run, quiet=True
            )
            with ev:
                for step in range(1, 11):
                    run.log(step, loss=1.0)
                    ev.step(step)
            run.finish()
        assert len(engine.seen) == 3 * 8
        assert [r.progress.step for r in mf.open_store().reports(1)] == [0, 5, 10]


def test_tokens_that_are_never_told_are_asked_for_once(caplog):
    ev = evaluator(freq_tokens=1000)
    ev.start()
    for step in range(1, 4):
        ev.step(step)
    assert caplog.text.count("freq_tokens needs step(..., tokens=...)") == 1


class TestFailures:
    def failing(self, times: int):
        class Failing(mf.engines.Fake):
            tries = 0

            def run(self, requests):
                Failing.tries += 1
                if Failing.tries <= times:
                    raise mf.engines.base.CapabilityError("no memory")
                yield from super().run(requests)

        return Failing("1")

    def test_defect_8_a_failed_evaluation_stays_due_and_training_goes_on(self, caplog):
        ev = evaluator(self.failing(3), freq_steps=10)
        ev.start()
        for step in range(1, 31):
            ev.step(step)
        assert measured(ev) == [17, 20, 30]  # tried at 10, 11, 13, then done at 17
        assert "evaluation at step 10 failed: sums: CapabilityError: no memory; training goes on" in caplog.text

    def test_a_task_that_fails_is_tried_alone_and_multiples_are_kept(self):
        engine = mf.engines.Fake(lambda request: "1")
        ev = mf.Evaluator(mf.EvaluatorConfig(freq_steps=10), [sums("good"), sums("bad")], engine, quiet=True)
        whole, broken = ev._between._evaluate, True
        asked = []

        def evaluate(task, progress):
            asked.append((task.name, progress.step))
            if task.name == "bad" and broken:
                raise RuntimeError("no")
            return whole(task, progress)

        ev._between._evaluate = evaluate
        ev.start()
        for step in range(1, 26):
            broken = step < 20
            ev.step(step)
        assert [step for name, step in asked if name == "good"] == [10, 20]
        assert [step for name, step in asked if name == "bad"] == [10, 11, 13, 17, 20]

    def test_on_error_raise(self):
        ev = evaluator(self.failing(1), freq_steps=1, on_error="raise")
        ev.start()
        with pytest.raises(CapabilityError, match="no memory"):
            ev.step(1)

    def test_the_first_measurement_raises_since_nothing_is_lost_yet(self):
        with pytest.raises(CapabilityError), evaluator(self.failing(1), eval_before_train=True):
            pass

    def test_an_engine_that_dies_half_way(self, caplog):
        ev = evaluator(mf.engines.Fake("1", die_after=3), freq_steps=1)
        ev.start()
        (report,) = ev.step(1)
        assert report.status == "failed"
        assert [r.status for r in ev.step(2)] == ["failed"]  # tried again
        assert "died after 3 outputs" in caplog.text
        strict = evaluator(mf.engines.Fake("1", die_after=3), freq_steps=1, on_error="raise")
        strict.start()
        with pytest.raises(EvaluationError, match="evaluation at step 1 failed"):
            strict.step(1)


class TestAReaLsForm:
    def test_indices_from_0_and_the_call_at_the_end_of_the_step(self):
        ev, seen = mf.Evaluator(mf.EvaluatorConfig(freq_steps=5, freq_epochs=1, steps_per_epoch=6)), []
        for global_step in range(12):
            ev.evaluate(lambda g=global_step: seen.append(g), global_step // 6, global_step % 6, global_step)
        assert seen == [4, 5, 9, 11]

    def test_its_result_is_returned_and_logged(self):
        with mf.Run("p", "r") as run:
            ev = mf.Evaluator(mf.EvaluatorConfig(freq_steps=2), run=run)
            results = [ev.evaluate(lambda: {"reward": 0.5, "name": "x"}, 0, s, s) for s in range(4)]
        assert results == [None, {"reward": 0.5, "name": "x"}] * 2
        assert mf.open_store().read_points(1, "eval/reward").steps.tolist() == [2, 4]

    def test_if_it_raises_it_stays_due(self):
        ev = mf.Evaluator(mf.EvaluatorConfig(freq_steps=2))
        ev.evaluate(lambda: 1, 0, 0, 0)
        with pytest.raises(ZeroDivisionError):
            ev.evaluate(lambda: 1 / 0, 0, 1, 1)
        assert ev.evaluate(lambda: "now", 0, 2, 2) == "now"

    def test_the_last_weights_are_measured(self):
        ev, seen = mf.Evaluator(mf.EvaluatorConfig(freq_steps=4)), []
        for step in range(6):
            ev.evaluate(lambda: seen.append(1), 0, step, step)
        ev.finish()
        ev.finish()
        assert len(seen) == 2

    def test_training_state_is_guarded(self):
        ev = mf.Evaluator(mf.EvaluatorConfig(freq_steps=1))
        random.seed(1)
        expected = random.Random(1).random()
        ev.evaluate(random.random, 0, 0, 0)
        assert random.random() == expected


class TestRefusals:
    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"freq_steps": 0}, "freq_steps: must be a number above 0"),
            ({"freq_secs": -5.0}, "freq_secs: must be a number above 0"),
            ({"freq_steps": "10"}, "freq_steps: input should be a valid integer"),
            ({"freq_step": 10}, r"unknown key 'freq_step'; did you mean 'freq_steps'\?"),
            ({"level": 1.0}, "level: input should be less than 1"),
            ({"on_error": "ignore"}, "on_error: input should be 'warn' or 'raise'"),
            ({"local_eval_nodes": 0}, "local_eval_nodes: input should be greater than or equal to 1"),
        ],
    )
    def test_configs(self, config, message):
        with pytest.raises(ConfigError, match=message):
            mf.EvaluatorConfig(**config)

    def test_configs_are_frozen(self):
        config = mf.EvaluatorConfig(freq_steps=1)
        with pytest.raises(ValueError, match="frozen"):
            config.freq_steps = 2

    def test_what_cannot_be_evaluated_is_refused_before_training(self):
        fake = mf.engines.Fake(answers=None)
        with pytest.raises(CapabilityError, match="task 'sums' needs"):
            mf.Evaluator(None, [sums()], fake)
        with pytest.raises(ConfigError, match="tasks without an engine"):
            mf.Evaluator(None, [sums()])
        with pytest.raises(ConfigError, match=r"tasks of the same name; got \['sums'\]"):
            mf.Evaluator(None, [sums(), sums()], mf.engines.Fake("1"))
        with pytest.raises(ConfigError, match="did you mean 'gsm8k'"):
            mf.Evaluator(None, ["gsm8"], mf.engines.Fake("1"))
        with pytest.raises(ConfigError, match=r"priorities of unknown tasks; got \['sum'\]"):
            mf.Evaluator(mf.EvaluatorConfig(priorities={"sum": 1}), [sums()], mf.engines.Fake("1"))

    def test_distributed_needs_nothing_where_there_is_one_rank(self):
        mf.Evaluator(mf.EvaluatorConfig(distributed=True, local_eval_nodes=4))


class TestRanks:
    def test_only_the_first_rank_evaluates(self, monkeypatch):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        engine = mf.engines.Fake("1")
        ev = evaluator(engine, freq_steps=1)
        with ev:
            ev.step(1)
        assert engine.seen == []


def train(with_evaluations: bool, word_tokenizer, steps: int = 8) -> tuple[list[float], torch.nn.Module]:
    """A real training: dropout, AdamW with schedule, random batches of torch, NumPy and Python, gradient accumulation."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = tiny_llama(word_tokenizer, attention_dropout=0.2)
    model.model.layers[0].mlp = torch.nn.Sequential(model.model.layers[0].mlp, torch.nn.Dropout(0.3))
    model.train()
    model.model.layers[1].eval()  # a part that the user keeps in evaluation mode
    model.config.use_cache = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    task = sums(samples=2, sampling={"temperature": 1.0, "max_tokens": 4}, metrics=["exact_match", "token_entropy"])
    text = mf.Task("text", SUMS, kind="loglikelihood", text="{{ a }} and {{ b }}", metrics=["perplexity"])
    engine = mf.engines.HF(model, word_tokenizer)
    ev = mf.Evaluator(mf.EvaluatorConfig(freq_steps=3, eval_before_train=True), [task, text], engine, quiet=True)
    losses = []
    if with_evaluations:
        ev.start()
    for step in range(1, steps + 1):
        for _ in range(2):
            batch = torch.randint(3, 600, (4, 12 + np.random.randint(4)))
            if random.random() < 0.5:
                batch = batch.flip(0)
            loss = model(input_ids=batch, labels=batch).loss
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        schedule.step()
        if step % 2:
            optimizer.zero_grad()  # every other time gradients stay over an evaluation
        if with_evaluations:
            ev.step(step)
    if with_evaluations:
        ev.finish()
        assert measured(ev) == [s for s in (0, 3, 6, 8) for _ in range(2)]
    return losses, model


def test_training_with_evaluations_is_bit_identical_to_training_without(word_tokenizer):
    """Invariant 1: the proof that an evaluation leaves no trace."""
    with_, model_with = train(True, word_tokenizer)
    without, model_without = train(False, word_tokenizer)
    assert with_ == without
    assert len(set(with_)) == len(with_)
    for (name, a), (_, b) in zip(model_with.state_dict().items(), model_without.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


class TestUntouched:
    @pytest.mark.parametrize("raises", [False, True])
    def test_everything_is_put_back_also_after_an_exception(self, word_tokenizer, raises):
        model = tiny_llama(word_tokenizer)
        model.train()
        model.model.layers[1].eval()
        model.register_buffer("counter", torch.tensor([1.0, 2.0]))
        random.seed(3), np.random.seed(3), torch.manual_seed(3)
        before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state())
        modes = [m.training for m in model.modules()]
        config, generation, buffer = model.config, model.generation_config, model.counter
        content = copy.deepcopy((vars(config), vars(generation)))
        try:
            with untouched([model]):
                assert not any(m.training for m in model.modules())
                assert not torch.is_grad_enabled()
                random.random(), np.random.rand(), torch.rand(3)
                model.counter = torch.zeros(5)
                buffer += 7
                model.config.use_cache = not model.config.use_cache
                model.generation_config = copy.deepcopy(generation)
                model.generation_config.temperature = 9.0
                generation.top_k = 3
                model.model.layers[0].train()
                if raises:
                    raise KeyError
        except KeyError:
            assert raises
        assert torch.is_grad_enabled()
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before[:2]
        assert torch.equal(torch.get_rng_state(), before[2])
        assert [m.training for m in model.modules()] == modes
        assert (model.config, model.generation_config) == (config, generation)
        assert model.generation_config is generation
        assert (vars(config), vars(generation)) == content
        assert model.counter is buffer
        assert buffer.tolist() == [1.0, 2.0]

    def test_without_torch_modules(self):
        with untouched():
            random.random()


def test_the_loop_of_the_design_runs_as_it_is_written(word_tokenizer):
    """DESIGN.md, section 3, to the letter."""
    model, tokenizer, cfg = tiny_llama(word_tokenizer), word_tokenizer, {"lr": 1e-3}
    my_task = sums("my_task", sampling={"max_tokens": 3})
    gsm8k = sums("gsm8k", sampling={"max_tokens": 3})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader, epoch = [torch.randint(3, 600, (2, 8)) for _ in range(200)], 0

    def train_step(batch):
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    run = mf.Run(project="mt-math", name="mt4-seed0", config=cfg)
    with mf.Evaluator(
        mf.EvaluatorConfig(freq_steps=100, eval_before_train=True),
        tasks=[gsm8k, my_task],
        engine=mf.engines.HF(model, tokenizer),
        run=run,
    ) as ev:  # measures before the first update
        for step, batch in enumerate(loader, start=1):
            run.log(step, loss=train_step(batch))
            ev.step(step, epoch=epoch)  # measures when due
            # measures the last weights
    run.finish()
    store = mf.open_store()
    assert [(r.task, r.progress.step) for r in store.reports(1)] == [
        (t, s) for s in (0, 100, 200) for t in ("gsm8k", "my_task")
    ]
    assert len(store.read_points(1, "loss").steps) == 200
    assert store.reports(1)[-1].cost.train_share is not None


def test_the_public_names():
    assert len(mf.__all__) <= 15
    for name in mf.__all__:
        assert getattr(mf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = mf.nope
