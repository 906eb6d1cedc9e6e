-- +goose Up
CREATE TABLE server (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    boot_id TEXT    NOT NULL,
    clean   INTEGER NOT NULL, -- 1 while no server runs on this state
    last_n  INTEGER NOT NULL  -- the number of the newest session that ever was
);

CREATE TABLE tokens (
    hash       BLOB    PRIMARY KEY, -- SHA-256 of the token
    owner      TEXT    NOT NULL,
    first      INTEGER NOT NULL,    -- 1 for the owner who runs the server
    created_at INTEGER NOT NULL     -- here and below: milliseconds since the epoch
) WITHOUT ROWID;

CREATE TABLE sessions (
    n                 INTEGER PRIMARY KEY,     -- never given twice, so that a cursor stays good
    id                TEXT    NOT NULL UNIQUE, -- made by the server, used inside
    owner             TEXT    NOT NULL,
    client_id         TEXT    NOT NULL,        -- what clients call it, unique for its owner
    name              TEXT    NOT NULL,
    environment       TEXT    NOT NULL,
    isolation         TEXT    NOT NULL,
    uid               INTEGER NOT NULL,        -- of its files on the host; 0: the server's own user
    limits            TEXT    NOT NULL,        -- JSON
    idle_timeout_ms   INTEGER NOT NULL,
    env               TEXT    NOT NULL,        -- JSON
    secrets           TEXT    NOT NULL,        -- JSON
    metadata          TEXT    NOT NULL,        -- JSON
    state             TEXT    NOT NULL,
    reason            TEXT    NOT NULL,
    generation        INTEGER NOT NULL,        -- of the present or last kernel
    kernel_started_at INTEGER,                 -- NULL before its first kernel answered
    restart_reason    TEXT    NOT NULL,        -- of the next kernel_reset
    layers            TEXT    NOT NULL,        -- JSON: isolation in force
    handle            TEXT,                    -- JSON: its sandbox, to be found after a crash
    execution_count   INTEGER NOT NULL,
    log_id            TEXT    NOT NULL,
    first_seq         INTEGER NOT NULL,
    last_seq          INTEGER NOT NULL,
    kseq              INTEGER NOT NULL,        -- last record of this generation that the log holds
    late_bytes        INTEGER NOT NULL,        -- output after the end of its cell, in this generation
    disk_bytes        INTEGER NOT NULL,
    snapshot          BLOB,                    -- the workspace as the log knows it
    notebook          BLOB,                    -- an imported notebook that is shown in place of the cells
    notebook_n        INTEGER NOT NULL DEFAULT 0, -- executions up to this one are hidden by it
    created_at        INTEGER NOT NULL,
    last_active_at    INTEGER NOT NULL,
    UNIQUE (owner, client_id)
);

CREATE TABLE executions (
    n               INTEGER PRIMARY KEY AUTOINCREMENT,
    session         INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    id              TEXT    NOT NULL,
    code            TEXT    NOT NULL,
    silent          INTEGER NOT NULL,
    stop_on_error   INTEGER NOT NULL,
    allow_stdin     INTEGER NOT NULL,
    timeout_ms      INTEGER NOT NULL, -- 0: none
    status          TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    execution_count INTEGER,
    generation      INTEGER NOT NULL,
    text            TEXT    NOT NULL,
    error           TEXT,             -- JSON
    artifacts       TEXT    NOT NULL, -- JSON
    usage           TEXT    NOT NULL, -- JSON
    truncated_bytes INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    started_at      INTEGER,
    finished_at     INTEGER,
    UNIQUE (session, id)
);
CREATE INDEX executions_open ON executions (session, n) WHERE finished_at IS NULL;

CREATE TABLE events (
    session      INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    seq          INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    type         TEXT    NOT NULL,
    execution_id TEXT,
    body         BLOB,    -- the event's JSON without its head; NULL where it is an artifact
    digest       TEXT,    -- the artifact that holds the body
    size         INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX events_execution ON events (session, execution_id, seq) WHERE execution_id IS NOT NULL;

CREATE TABLE artifacts (
    session      INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    seq          INTEGER NOT NULL,
    execution_id TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    change       TEXT    NOT NULL,
    size         INTEGER,
    media_type   TEXT    NOT NULL,
    sha256       TEXT    NOT NULL,
    time         INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

-- Which digests a session refers to. kind is 'public' for what its owner may download, 'event' for bodies of events.
CREATE TABLE refs (
    digest     TEXT    NOT NULL,
    session    INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    kind       TEXT    NOT NULL,
    media_type TEXT    NOT NULL,
    PRIMARY KEY (digest, session, kind)
) WITHOUT ROWID;
CREATE INDEX refs_session ON refs (session);
