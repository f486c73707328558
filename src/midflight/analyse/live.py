"""Detectors beside a run that trains: every record goes through them in the writer's thread, never in the loop."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from midflight.analyse.diagnose import Watch, columns_of, facts_of_config, held_out, records_of
from midflight.analyse.names import canonical_names
from midflight.credentials import Scrubber, resolve, variables_in
from midflight.errors import ConfigError, MidflightError, StoreError, shorten
from midflight.posting import checked_url, escaped, post_json
from midflight.records import EvalReport, Finding
from midflight.schema import to_json
from midflight.store import RunInfo, Store

OPENING = 200
"""First records that are kept, to be looked at again once a name says what is trained."""
NOTIFY_S = 10.0
"""Seconds that a notification may take."""

Row = tuple[int, float, Mapping[str, float]]
"""Step, seconds since the epoch, values by the name that was logged."""


def check_notify(notify: Sequence[str], on_finding: Callable[[Finding], None] | None) -> None:
    """Refuses what nobody could be told by.

    Raises:
        ConfigError: If `notify` is no list of URLs that secrets may go over, or `on_finding` cannot be called.
    """
    if isinstance(notify, str):
        raise ConfigError("notify", got=notify, allowed="a list of URLs", hint=f"notify=[{notify!r}]")
    for url in notify:
        if not variables_in(url):
            checked_url(url, url)
    if on_finding is not None and not callable(on_finding):
        raise ConfigError("on_finding", got=on_finding, allowed="a function of a Finding")


class LiveWatch:
    """The detectors on a run that is being written.

    Args:
        store: Where findings are kept.
        run: The run.
        attempt: The attempt that is being written; what earlier ones logged is looked at first, without a word.
        notify: URLs that are told of each finding (JSON, with `text` as Slack takes it); ``${env:NAME}`` is replaced.
        on_finding: Called with each finding, in the writer's thread.

    Raises:
        ConfigError: If a URL is none that secrets may go over.
    """

    def __init__(
        self,
        store: Store,
        run: RunInfo,
        attempt: int,
        notify: Sequence[str] = (),
        on_finding: Callable[[Finding], None] | None = None,
    ) -> None:
        check_notify(notify, on_finding)
        self._store, self._run, self._attempt = store, run, attempt
        self._notify, self._on_finding = tuple(notify), on_finding
        self._names: dict[str, str] = {}  # canonical to logged
        self._known: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        self._opening: list[tuple[int, Mapping[str, float]]] = []
        self._lock = threading.Lock()
        self._waiting: list[Finding] = []
        self._watch: Watch | None = None
        self._failed: set[str] = set()
        self._measured: set[tuple[str, int]] = set()
        self._posts: list[threading.Thread] = []

    @property
    def findings(self) -> list[Finding]:
        """What was noticed so far."""
        watch = self._watch  # without the lock: the loop asks at every step, and must not wait for a record
        return [] if watch is None else list(watch.findings)

    def look(self, rows: Sequence[Row]) -> None:
        """Takes what was logged since the last time."""
        for step, _, logged in rows:
            keys = tuple(logged)
            known = self._known.get(keys)
            if known is None:
                known = self._known[keys] = self._canonical(keys)
            if known:
                self._take(step, {name: logged[key] for name, key in known})
        self._keep()

    def evaluated(self, report: EvalReport) -> None:
        """Takes what an evaluation measured; one that comes back from the store after a resume counts once."""
        measured = {(name, step): value for name, step, value in held_out([report])}
        new = {name: value for (name, step), value in measured.items() if (name, step) not in self._measured}
        self._measured.update(measured)
        self._take(report.progress.step, new)

    def close(self) -> None:
        """Waits until what was noticed has been delivered, `NOTIFY_S` at most: a run may end by what it died of."""
        limit = time.monotonic() + NOTIFY_S
        for post in self._posts:
            post.join(max(0.0, limit - time.monotonic()))

    def _canonical(self, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Those of the names that have a canonical one; the best of those that were logged under it first has it."""
        best = canonical_names(keys).items()
        return [(name, key) for key, name in best if self._names.setdefault(name, key) == key]

    def _take(self, step: int, values: Mapping[str, float]) -> None:
        if not values:
            return
        with self._lock:
            if self._watch is None:
                self._watch = self._begin(step, values)
            found = self._watch.record(step, values)
            if len(self._opening) < OPENING:
                self._opening.append((step, values))
                found += self._look_again(self._watch)
            self._say_what_failed(self._watch)
        for finding in found:
            self._tell(finding)

    def _say_what_failed(self, watch: Watch) -> None:
        for kind in watch.failed.keys() - self._failed:
            self._failed.add(kind)
            text = f"midflight: the detector {kind} failed and is left out: {watch.failed[kind]}"
            print(text, file=sys.stderr, flush=True)

    def _begin(self, step: int, values: Mapping[str, float]) -> Watch:
        """The detectors with all that earlier attempts logged behind them: what they noticed was told then.

        The record that is taken first may be in the store already, as an evaluation is.
        """
        if self._attempt == 1:
            return Watch(facts_of_config(self._run.config, self._names, {}))
        columns, names = columns_of(self._store, self._run.id)
        self._names.update({name: key for name, key in names.items() if name not in self._names})
        watch = Watch(facts_of_config(self._run.config, self._names, columns))
        self._measured.update(
            (name, at) for name, (steps, _) in columns.items() if name.startswith("heldout/") for at in steps
        )
        self._opening = []
        for earlier, logged in records_of(columns):
            before = {name: value for name, value in logged.items() if earlier != step or name not in values}
            watch.record(earlier, before)
            if len(self._opening) < OPENING:
                self._opening.append((earlier, before))
        return watch

    def _look_again(self, watch: Watch) -> list[Finding]:
        """A name, or where a series begins, may tell what is trained: then all is looked at anew."""
        first: dict[str, tuple[Sequence[int], Sequence[float]]] = {}
        for step, values in self._opening:
            for name in values.keys() - first.keys():
                first[name] = [step], [values[name]]
        facts = facts_of_config(self._run.config, self._names, first)
        if facts.algorithm == watch.facts.algorithm:
            return []
        self._watch = Watch(facts)
        told = {(finding.kind, finding.severity) for finding in watch.findings}
        found = [finding for step, values in self._opening for finding in self._watch.record(step, values)]
        return [finding for finding in found if (finding.kind, finding.severity) not in told]

    def _tell(self, finding: Finding) -> None:
        self._waiting.append(finding)
        print(line_of(finding), file=sys.stderr, flush=True)
        if self._on_finding is not None:
            try:
                self._on_finding(finding)
            except Exception as error:  # the user's: the writer must outlive it
                what = f"{type(error).__name__}: {shorten(str(error))}"
                print(f"midflight: on_finding raised {what}", file=sys.stderr, flush=True)
        for url in self._notify:  # a slow server must not keep the writer waiting
            post = threading.Thread(target=self._post, args=(url, finding), name="midflight-notify", daemon=True)
            self._posts = [one for one in self._posts if one.is_alive()] + [post]
            post.start()

    def _keep(self) -> None:
        """Stores what was noticed; what cannot be stored now is stored the next time."""
        while self._waiting:
            try:
                self._store.add_finding(self._run.id, self._attempt, self._waiting[0])
            except StoreError:
                return
            del self._waiting[0]

    def _post(self, url: str, finding: Finding) -> None:
        """Tells a URL; that it cannot be reached is said here, and stops nothing."""
        place = f"{self._run.project}/{self._run.name}"
        body = {"text": escaped(f"{place}: {line_of(finding)}"), "run": place, "finding": dataclasses.asdict(finding)}
        try:
            status, _, answer = post_json(resolve(url), to_json(body), {}, NOTIFY_S, url)
            problem = "" if 200 <= status < 300 else f"{url}: HTTP {status}: {shorten(answer, 200)}"
        except MidflightError as error:
            problem = str(error)
        if problem:
            scrubbed = Scrubber(variables_in(url))(problem)
            print(f"midflight: a finding was not delivered: {scrubbed}", file=sys.stderr, flush=True)


def line_of(finding: Finding) -> str:
    """One line for a log."""
    since = f", since step {finding.onset}" if finding.onset != finding.noticed else ""
    what = f"{finding.severity.upper()}: {finding.kind} at step {finding.noticed}{since}"
    return f"midflight: {what}: {shorten(finding.text)}"
