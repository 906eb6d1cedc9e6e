-- +goose Up
-- The session's web hooks, as JSON, and the configured MCP servers whose tools its cells may call.
ALTER TABLE sessions ADD COLUMN tools TEXT NOT NULL DEFAULT '[]';
ALTER TABLE sessions ADD COLUMN mcp_servers TEXT NOT NULL DEFAULT '[]';
