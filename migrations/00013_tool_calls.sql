-- +goose Up
-- Which built-in tools a session's cells may call: true, false, or a list of names.
ALTER TABLE sessions ADD COLUMN builtin_tools TEXT NOT NULL DEFAULT 'true';
-- The tools that came in the body of an execution's request; null: none.
ALTER TABLE executions ADD COLUMN tools TEXT;
ALTER TABLE executions ADD COLUMN tool_calls INTEGER NOT NULL DEFAULT 0;

-- The audit of tool calls: those that were handed to whoever provides the tool.
CREATE TABLE tool_calls (
    n           INTEGER PRIMARY KEY AUTOINCREMENT,
    session     INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    call_id     TEXT    NOT NULL,
    execution   TEXT    NOT NULL, -- its id
    tool        TEXT    NOT NULL,
    provider    TEXT    NOT NULL, -- client, execution, builtin
    client_id   TEXT    NOT NULL, -- of the client that provides the tool, which may come back; '': none
    idempotent  INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,
    arguments   TEXT,             -- JSON, redacted; null where it is long
    payload     TEXT,             -- the arguments while the call is open and may be handed over again
    created_at  INTEGER NOT NULL,
    duration_ms INTEGER,          -- null while the call is open
    error       TEXT              -- JSON; null of a call that succeeded
);
CREATE INDEX tool_calls_session ON tool_calls (session, n);
CREATE INDEX tool_calls_open ON tool_calls (session) WHERE duration_ms IS NULL;
