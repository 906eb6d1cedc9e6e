-- +goose Up
ALTER TABLE sessions ADD COLUMN packages TEXT NOT NULL DEFAULT '[]'; -- JSON: the requirements of its creation
