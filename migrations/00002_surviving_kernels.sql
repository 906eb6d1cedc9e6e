-- +goose Up
-- JSON: what the running execution has printed and the log does not hold; NULL where the log holds it all.
ALTER TABLE sessions ADD COLUMN output TEXT;
