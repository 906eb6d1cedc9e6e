-- +goose Up
-- Kernels that have begun with the saved variables of the one before, and share its generation. A kernel's number among all of the
-- session is generation + wakes.
ALTER TABLE sessions ADD COLUMN wakes INTEGER NOT NULL DEFAULT 0;
