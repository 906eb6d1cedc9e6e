-- +goose Up
-- JSON: what the cell asked for that is to be done when it has ended; null: nothing, or it is done.
ALTER TABLE executions ADD COLUMN after_cell TEXT;
CREATE INDEX executions_after_cell ON executions (session) WHERE after_cell IS NOT NULL;
