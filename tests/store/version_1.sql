-- A store of version 1, as midflight 0.1.0 made it: with a run, a point's chunk, an evaluation and a lease.
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
PRAGMA application_id=1296452692;
PRAGMA user_version=1;
INSERT INTO run VALUES (1, 'math', 'mt4', 'finished', 1.0, 2.0, 2.0, 'host:1:1', '{}', '[]', '{}', '{}', 0);
INSERT INTO attempt VALUES (1, 1, 1.0, NULL, NULL);
INSERT INTO lease VALUES ('x', 3, 'host:1:1', -1);
