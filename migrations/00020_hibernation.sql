-- +goose Up
-- What happens to an idle kernel: hibernate or drop; '': as the operator says.
ALTER TABLE sessions ADD COLUMN on_idle TEXT NOT NULL DEFAULT '';
-- JSON: the variables of a kernel that hibernates, and of a fork that has not begun; null: none are saved.
ALTER TABLE sessions ADD COLUMN saved TEXT;
