-- +goose Up
-- The notebook page's cells, their order and a title. A session without a row shows its executions as they came.
CREATE TABLE documents (
    session  INTEGER PRIMARY KEY REFERENCES sessions (n) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    title    TEXT    NOT NULL,
    through  INTEGER NOT NULL, -- executions queued up to this seq are in it, or were taken out of it
    cells    BLOB    NOT NULL  -- JSON
);

-- Tokens that may only read one session.
CREATE TABLE shares (
    hash       BLOB    PRIMARY KEY, -- SHA-256 of the token
    id         TEXT    NOT NULL UNIQUE,
    session    INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX shares_session ON shares (session);
