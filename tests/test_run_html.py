"""What a notebook shows of a run is HTML that is whole, and in which a user's texts are text."""

from __future__ import annotations

from xml.etree import ElementTree

import midflight as mf
from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.run._html import MOST_SERIES
from midflight.tasks import Task


def shown(run):
    return ElementTree.fromstring(run._repr_html_())


def text_of(root):
    return " ".join(root.itertext())


def test_a_run_shows_its_evaluations_and_curves(store):
    with mf.Run("p", "r<b>", store=store) as run:
        assert "nothing was logged" in text_of(shown(run))
        for step in range(500):
            run.log(
                step,
                **{
                    "loss": 1 / (step + 1),
                    "<script>alert(1)</script>": float("nan"),
                    "huge": 1e308 * (-1) ** step,
                    "large": 1e30 * step,
                },
            )
        task = Task("t&t", [{"id": "a", "q": "1"}], id="id", prompt="{{ q }}", target="q", metrics=["exact_match"])
        evaluate_checkpoint(task, Fake("1"), run=run)
        root = shown(run)
    assert "<script>" not in run._repr_html_()
    assert "p/r<b>" in text_of(root)
    assert "[0.2065, 1]" in text_of(root)
    assert "no finite value" in text_of(root)
    assert len(root.findall(".//svg")) == 2
    assert len(root.find(".//polyline").get("points").split()) > 50


def test_many_series_are_cut_and_it_is_said(store):
    run = mf.Run("p", "r", store=store)
    run.log(1, **{f"k{i:02}": float(i) for i in range(30)})
    assert f"{MOST_SERIES} of 30" in text_of(shown(run))
    run.finish()


def test_a_rank_that_records_nothing_shows_nothing(store, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert mf.Run("p", "r", store=store)._repr_html_() is None
