-- +goose Up
ALTER TABLE sessions ADD COLUMN guard TEXT NOT NULL DEFAULT 'warn'; -- what happens to cells that fail again and again
-- What an execution failed with, in short, so that the next one like it is recognised; '' where it did not run to an end.
ALTER TABLE executions ADD COLUMN signature TEXT NOT NULL DEFAULT '';
ALTER TABLE executions ADD COLUMN guard TEXT; -- JSON: what the client is told about a repeated failure
