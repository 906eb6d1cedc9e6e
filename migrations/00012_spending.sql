-- +goose Up
-- What a session may spend in all, and what it has spent.
ALTER TABLE sessions ADD COLUMN budgets TEXT NOT NULL DEFAULT '{}'; -- JSON
ALTER TABLE sessions ADD COLUMN spent_executions INTEGER NOT NULL DEFAULT 0; -- that were queued
ALTER TABLE sessions ADD COLUMN spent_cpu_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN spent_tool_calls INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET
    spent_executions = (SELECT count(*) FROM executions x WHERE x.session = sessions.n),
    spent_cpu_ms = (SELECT coalesce(sum(json_extract(x.usage, '$.cpu_ms')), 0) FROM executions x WHERE x.session = sessions.n);
