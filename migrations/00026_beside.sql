-- +goose Up
-- The session in whose sandbox the kernels of this one run, 0: they have sandboxes of their own; and the folder where they begin then.
ALTER TABLE sessions ADD COLUMN beside INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN folder TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_beside ON sessions (beside) WHERE beside <> 0;
