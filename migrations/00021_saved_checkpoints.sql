-- +goose Up
-- JSON: the variables of a checkpoint that are saved on disk; null: none are.
ALTER TABLE checkpoints ADD COLUMN saved TEXT;
