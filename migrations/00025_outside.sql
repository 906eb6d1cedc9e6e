-- +goose Up
-- An execution called a tool outside of the sandbox, installed packages, or could reach a network or write to a mount. Nothing is known
-- about those that were there before.
ALTER TABLE executions ADD COLUMN outside INTEGER NOT NULL DEFAULT 1;
