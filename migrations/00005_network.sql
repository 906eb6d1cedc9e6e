-- +goose Up
ALTER TABLE sessions ADD COLUMN network TEXT NOT NULL DEFAULT '{"mode":"none"}'; -- JSON: what it may reach
