-- +goose Up
ALTER TABLE sessions ADD COLUMN mounts TEXT NOT NULL DEFAULT '[]'; -- JSON: directories of the host that it sees
