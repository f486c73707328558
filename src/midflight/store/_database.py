"""The SQLite file: opening, versions, transactions, and what its errors mean."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from midflight.errors import StoreError
from midflight.signals import uninterrupted
from midflight.store._stored import NAMES

VERSION = 2
APPLICATION_ID = 0x4D464C54  # "MFLT"
BUSY_S = 30.0
"""Seconds that a write waits for other writers before it gives up."""

TABLES = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
    created REAL NOT NULL, heartbeat REAL NOT NULL, finished REAL, owner TEXT NOT NULL,
    config TEXT NOT NULL, tags TEXT NOT NULL, environment TEXT NOT NULL, git TEXT NOT NULL,
    lost_points INTEGER NOT NULL DEFAULT 0);
CREATE INDEX run_name ON run (name, project);
CREATE TABLE attempt (
    run INTEGER NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, ended REAL,
    from_step INTEGER,  -- first step of its own, if it was told where it resumed: what earlier attempts have from there
                        -- on is superseded; NULL = what it writes tells, series by series
    PRIMARY KEY (run, number)) WITHOUT ROWID;
CREATE TABLE key (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE flush (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL, n INTEGER NOT NULL,
    keys BLOB NOT NULL, data BLOB NOT NULL);
CREATE INDEX flush_run ON flush (run, attempt);
CREATE TABLE blob (id INTEGER PRIMARY KEY, sketch BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE chunk (
    run INTEGER NOT NULL, key INTEGER NOT NULL, attempt INTEGER NOT NULL,
    start INTEGER NOT NULL,  -- step that was written first; first and last are the smallest and the largest
    first INTEGER NOT NULL, last INTEGER NOT NULL, n INTEGER NOT NULL, codec INTEGER NOT NULL, blob INTEGER NOT NULL,
    PRIMARY KEY (run, key, attempt, blob)) WITHOUT ROWID;
CREATE TABLE head (
    run INTEGER NOT NULL, key INTEGER NOT NULL, step INTEGER NOT NULL, wall REAL NOT NULL,
    value BLOB NOT NULL,  -- 8 bytes, little-endian: SQLite would turn NaN into NULL
    n INTEGER NOT NULL, PRIMARY KEY (run, key)) WITHOUT ROWID;
CREATE TABLE evaluation (
    id TEXT PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL, identity TEXT NOT NULL,
    supersedes INTEGER NOT NULL,  -- whether evaluations of earlier attempts from its step on are superseded
    task TEXT NOT NULL, task_fingerprint TEXT NOT NULL, step INTEGER NOT NULL, weights TEXT NOT NULL,
    status TEXT NOT NULL, started REAL NOT NULL, seconds REAL NOT NULL DEFAULT 0, report TEXT,
    UNIQUE (run, identity)) WITHOUT ROWID;
CREATE INDEX evaluation_curve ON evaluation (run, task, step);
CREATE TABLE missing (  -- evaluations that were due and did not take place
    run INTEGER NOT NULL, attempt INTEGER NOT NULL, task TEXT NOT NULL, step INTEGER NOT NULL, at REAL NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (run, task, step, attempt)) WITHOUT ROWID;
CREATE TABLE lease (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL, owner TEXT NOT NULL,
    beat INTEGER NOT NULL  -- grows while the holder is alive; -1 = given back
) WITHOUT ROWID;
CREATE TABLE item (
    task_fingerprint TEXT NOT NULL, id TEXT NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (task_fingerprint, id)) WITHOUT ROWID;
CREATE TABLE output (
    id INTEGER PRIMARY KEY, evaluation TEXT NOT NULL, request TEXT NOT NULL, content TEXT NOT NULL,
    UNIQUE (evaluation, request));
CREATE TABLE score (
    evaluation TEXT NOT NULL, metric TEXT NOT NULL, item TEXT NOT NULL, value REAL, weight REAL NOT NULL,
    state TEXT NOT NULL, note TEXT NOT NULL, samples TEXT NOT NULL,
    PRIMARY KEY (evaluation, metric, item)) WITHOUT ROWID;
"""
"""Version 1."""

ADDED = {
    2: """
CREATE TABLE execution (
    id TEXT PRIMARY KEY, workflow TEXT NOT NULL, workflow_digest TEXT NOT NULL, project TEXT NOT NULL,
    checkpoint TEXT NOT NULL, weights TEXT NOT NULL, verdict TEXT NOT NULL, status TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '', created REAL NOT NULL,
    sitting INTEGER NOT NULL  -- number of the lease of who carries it out: one that was taken for dead writes no more
) WITHOUT ROWID;
CREATE TABLE step (
    execution TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,
    attempts INTEGER NOT NULL, reason TEXT NOT NULL, state TEXT NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (execution, position)) WITHOUT ROWID;
CREATE TABLE finding (  -- what the detectors noticed, once a run and kind and attempt
    run INTEGER NOT NULL, attempt INTEGER NOT NULL, kind TEXT NOT NULL, noticed INTEGER NOT NULL, at REAL NOT NULL,
    content TEXT NOT NULL, PRIMARY KEY (run, attempt, kind)) WITHOUT ROWID;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, git TEXT NOT NULL, execution TEXT NOT NULL,
    step TEXT NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail only grows'); END;
CREATE TRIGGER audit_grows BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail only grows'); END;
CREATE TABLE verdict (
    id TEXT PRIMARY KEY, project TEXT NOT NULL, run TEXT NOT NULL, policy TEXT NOT NULL, outcome TEXT NOT NULL,
    created REAL NOT NULL, content TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX verdict_run ON verdict (project, run, created);
CREATE TABLE look (  -- what a policy has looked at in a run: each thing once, in the order of the first time
    project TEXT NOT NULL, run TEXT NOT NULL, policy TEXT NOT NULL, seen TEXT NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (project, run, policy, seen)) WITHOUT ROWID;
""",
}
"""What each later version has beside the tables of those before it."""


class Database:
    """One SQLite file: a connection for each thread and process, in WAL mode.

    Args:
        path: The file; made if it does not exist.
        create: Whether it may be made.
        read_only: Whether SQLite refuses every write, and each reading a file that is no longer the one that was
            opened: what watches for days must not take yesterday's file for today's.

    Raises:
        StoreError: If it cannot be opened, is no Midflight store, or was written by a newer version.
    """

    def __init__(self, path: str | Path, create: bool = True, read_only: bool = False) -> None:
        self.path = Path(path).expanduser().absolute()  # wherever the program goes afterwards
        self._local = threading.local()
        self._mode = "rwc" if create else "rw"  # a file that is gone is not made anew by who did not make it
        self._only: tuple[int, int] | None = None
        if not create and not self.path.is_file():
            raise StoreError(f"no store at {self.path}", hint="name it with --store or $MIDFLIGHT_STORE")
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: its folder does not exist")
        with self.reading():
            self._prepare(self.connection)  # an older version is upgraded, whoever opens it
        if read_only:
            self.close()
            self._only = self._identity()

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        local = self._local
        if self._only is not None and self._identity() != self._only:
            raise StoreError(f"{self.path} is another file than the one that was opened", hint="open it again")
        if getattr(local, "pid", None) != os.getpid():  # a forked child must not use its parent's
            url = f"{self.path.as_uri()}?mode={self._mode}"
            connection = sqlite3.connect(url, uri=True, timeout=BUSY_S, isolation_level=None)
            connection.execute("PRAGMA journal_size_limit=67108864")
            connection.execute(f"PRAGMA query_only={'ON' if self._only is not None else 'OFF'}")
            local.connection, local.pid = connection, os.getpid()
        found: sqlite3.Connection = local.connection
        return found

    def _identity(self) -> tuple[int, int]:
        """Device and inode of the file."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreError(f"no store at {self.path} ({error.strerror})") from None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Closes this thread's connection."""
        if getattr(self._local, "pid", None) == os.getpid():
            self._local.connection.close()
            del self._local.pid

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection; SQLite's errors become ours."""
        try:
            yield self.connection
        except sqlite3.Error as error:
            raise self._explain(error) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise StoreError(f"{self.path}: it cannot hold a value ({error})") from error
        except (UnicodeDecodeError, json.JSONDecodeError, struct.error) as error:
            raise StoreError(f"{self.path}: it is damaged ({error})", hint=_RESCUE) from error

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """What is there now: all that is read within belongs together, though others write meanwhile."""
        with self.reading() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")  # nothing was written; COMMIT fails where a page is broken

    @contextmanager
    def writing(self, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing.

        Args:
            durable: Whether it also outlasts a power cut right behind it; all of them outlast a crash of the process.
        """
        with uninterrupted(), self.reading() as connection:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has rolled back by itself
                    connection.execute("ROLLBACK")
                raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._create(connection)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION_ID:
            raise StoreError(f"{self.path} is an SQLite file of another program", hint="choose another file")
        if version > VERSION:
            raise StoreError(
                f"{self.path}: store version",
                got=version,
                allowed=f"up to {VERSION}",
                hint="it was written by a newer midflight: upgrade this one",
            )
        if version < VERSION:
            self._upgrade(connection)

    def _create(self, connection: sqlite3.Connection) -> None:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            connection.execute("PRAGMA page_size=16384")
            self._log_ahead(connection)
        with self.writing():
            # another process may have made it while we waited
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for text in (TABLES, *ADDED.values()):
                    _run_all(connection, text)
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={VERSION}")

    @staticmethod
    def _log_ahead(connection: sqlite3.Connection) -> None:
        """Switches to WAL; where another process does so at this moment SQLite gives up at once, and we wait."""
        given_up = time.monotonic() + BUSY_S
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > given_up:
                    raise
            time.sleep(0.01)

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """Adds what later versions have; those who have the file open go on with what they know."""
        with self.writing():
            version = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
            for newer in range(version + 1, VERSION + 1):
                _run_all(connection, ADDED[newer])
                connection.execute(f"PRAGMA user_version={newer}")

    def _explain(self, error: sqlite3.Error) -> StoreError:
        text = str(error)
        for symptom, what, hint in _SYMPTOMS:
            if symptom in text:
                return StoreError(f"{self.path}: {what} ({text})", hint=hint)
        return StoreError(f"{self.path}: {text}")


def _run_all(connection: sqlite3.Connection, text: str) -> None:
    for statement in text.split(";\n"):
        connection.execute(statement)


_RESCUE = "save what is left: sqlite3 FILE .recover"

_SYMPTOMS = (
    ("full", "the disk is full", "free some space; nothing that was written before is lost"),
    ("locked", f"another process has held it for more than {BUSY_S:g} s", "see which one: fuser, lsof"),
    ("not a database", "it is no SQLite file", "it is damaged or of another program: move it away, or name another"),
    ("malformed", "it is damaged", _RESCUE),
    ("Could not decode", "a text in it is damaged", NAMES),
    ("readonly", "it cannot be written to", "check the permissions of the file and its folder"),
    ("unable to open", "it cannot be opened", "check that the folder exists and may be written to"),
    ("disk I/O error", "the disk failed", "check the disk; network file systems do not suit SQLite"),
)
