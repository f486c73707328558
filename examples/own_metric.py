"""A metric of one's own: `compute` is all it takes. It gets a bootstrap error and is plotted like any other."""

import midflight as mf


class RiskSensitiveMetric(mf.BaseMetric):
    """Share of wrong answers, where an answer that is far off weighs more."""

    higher_is_better = False

    def compute(self, predictions: list[str], labels: list[int]) -> float:
        risks = [
            min(1.0, abs(int(p) - y) / 10) if p.isdigit() else 1.0 for p, y in zip(predictions, labels, strict=True)
        ]
        return sum(risks) / len(risks)


if __name__ == "__main__":
    rows = [{"a": a, "b": b} for a in range(10) for b in range(5)]
    sums = mf.Task("sums", rows, prompt="{{ a }}+{{ b }}=", target="a + b", metrics=["exact_match"])
    engine = mf.engines.Fake(answers=lambda request: str(int(request.prompt[0]) + 2))  # always adds two
    evaluator = mf.Evaluator(tasks=[sums], engine=engine)
    evaluator.register_metric("risk_score", RiskSensitiveMetric)
    with evaluator:
        pass  # no training: the weights are measured once
    print(evaluator.reports[0].estimate("risk_score"))
