"""An engine of one's own: it gets all requests at once, and yields outputs as they finish, in any order."""

from collections.abc import Iterator, Sequence

import midflight as mf
from midflight.engines import BaseEngine
from midflight.records import Output, Request


class Calculator(BaseEngine):
    """Not a language model, but one may ask it."""

    name = "calculator"
    capabilities = frozenset({"generate"})

    def run(self, requests: Sequence[Request]) -> Iterator[Output]:
        for request in requests:
            a, b = str(request.prompt).removesuffix("=").split("+")
            yield Output(request.id, text=str(int(a) + int(b)), num_tokens=1, num_prompt_tokens=4)

    def fingerprint(self) -> dict[str, object]:
        return {"engine": self.name, "version": 1}


if __name__ == "__main__":
    rows = [{"a": a, "b": b} for a in range(10) for b in range(5)]
    sums = mf.Task("sums", rows, prompt="{{ a }}+{{ b }}=", target="a + b", metrics=["exact_match"])
    print(Calculator().evaluate_lm(sums).estimate("exact_match"))
