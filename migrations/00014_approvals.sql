-- +goose Up
-- What the session asks a person for: off, destructive, all.
ALTER TABLE sessions ADD COLUMN approvals TEXT NOT NULL DEFAULT 'off';

-- The questions to people, and who decided how.
CREATE TABLE approvals (
    n           INTEGER PRIMARY KEY AUTOINCREMENT,
    session     INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    approval_id TEXT    NOT NULL,
    kind        TEXT    NOT NULL, -- tool, cell, network, packages
    execution   TEXT    NOT NULL, -- its id; '': none
    call_id     TEXT    NOT NULL, -- of the tool call; '': none
    subject     TEXT    NOT NULL, -- what the decision "session" covers, such as a tool
    summary     TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    patterns    TEXT    NOT NULL, -- JSON
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    decision    TEXT    NOT NULL DEFAULT '', -- '' while the question is open
    decided_by  TEXT    NOT NULL DEFAULT '',
    reason      TEXT    NOT NULL DEFAULT '',
    resolved_at INTEGER,
    covers      INTEGER NOT NULL DEFAULT 0   -- 1: its decision covers the subject, until a reset
);
CREATE INDEX approvals_session ON approvals (session, n);
CREATE INDEX approvals_open ON approvals (session) WHERE decision = '';
CREATE INDEX approvals_covering ON approvals (session) WHERE covers = 1;

-- 1: the call may not be handed over, since no person has approved it yet.
ALTER TABLE tool_calls ADD COLUMN awaits_approval INTEGER NOT NULL DEFAULT 0;
