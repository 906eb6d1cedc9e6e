-- +goose Up
-- Jobs that run many cells; see package batch.
CREATE TABLE batches (
    n           INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    NOT NULL,
    status      TEXT    NOT NULL,            -- queued, running, done, cancelled
    reason      TEXT    NOT NULL DEFAULT '', -- why it was cancelled: request, deadline; '': it was not
    concurrency INTEGER NOT NULL,            -- items that may run at a time; 0: as many as the server runs
    deadline    INTEGER,                     -- when what has not ended is cancelled; null: never
    total       INTEGER NOT NULL,            -- items
    open        INTEGER NOT NULL,            -- items that have not ended
    last_seq    INTEGER NOT NULL,            -- of its events, the first of which is its creation
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    started_seq INTEGER,
    finished_at INTEGER                      -- its event is last_seq
);
CREATE INDEX batches_owner ON batches (owner, n);
CREATE INDEX batches_open ON batches (n) WHERE finished_at IS NULL;

CREATE TABLE batch_items (
    batch        INTEGER NOT NULL REFERENCES batches (n) ON DELETE CASCADE,
    i            INTEGER NOT NULL, -- its index
    session      TEXT    NOT NULL, -- the id that clients use
    fresh        INTEGER NOT NULL, -- the session is made for the item
    code         TEXT    NOT NULL, -- empty once it has ended
    files        TEXT,             -- JSON; null: none, or it has ended
    status       TEXT    NOT NULL,
    execution    TEXT,             -- JSON: what came of it
    error        TEXT,             -- JSON: why it could not run
    discard      INTEGER NOT NULL DEFAULT 0, -- the fresh session: 0 stays, 1 is to be deleted, 2 is deleted
    started_at   INTEGER,
    started_seq  INTEGER,
    finished_at  INTEGER,
    finished_seq INTEGER,
    PRIMARY KEY (batch, i)
);
CREATE INDEX batch_items_started ON batch_items (batch, started_seq) WHERE started_seq IS NOT NULL;
CREATE INDEX batch_items_finished ON batch_items (batch, finished_seq) WHERE finished_seq IS NOT NULL;
CREATE INDEX batch_items_discard ON batch_items (batch) WHERE discard = 1;
