-- +goose Up
-- JSON: when checkpoints are made, and how many are kept.
ALTER TABLE sessions ADD COLUMN checkpoints TEXT NOT NULL DEFAULT '{}';
-- JSON: the rollback that is under way, which the next server finishes; null: none.
ALTER TABLE sessions ADD COLUMN rollback TEXT;
-- A checkpoint is to be made before it runs.
ALTER TABLE executions ADD COLUMN checkpoint INTEGER NOT NULL DEFAULT 0;
-- The session went back to a point before it.
ALTER TABLE executions ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;

-- States of sessions to go back to.
CREATE TABLE checkpoints (
    n               INTEGER PRIMARY KEY AUTOINCREMENT,
    session         INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    id              TEXT    NOT NULL,
    name            TEXT    NOT NULL, -- '': none
    execution       TEXT    NOT NULL, -- the id of the newest execution that had ended; '': none had
    execution_n     INTEGER NOT NULL, -- its number; 0: none had
    execution_count INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    level           TEXT    NOT NULL,
    reason          TEXT    NOT NULL, -- why the variables are not in it; '': they are
    undo            INTEGER NOT NULL, -- a rollback made it
    copy            TEXT    NOT NULL, -- the name of the copy of the interpreter; '': none
    generation      INTEGER NOT NULL, -- of the kernel that has the copy
    resident        INTEGER NOT NULL, -- bytes of memory that the interpreter had
    losses          TEXT    NOT NULL, -- JSON: what the copy does not have
    variables       TEXT    NOT NULL, -- JSON: a list of the variables
    undone          TEXT    NOT NULL, -- JSON: ranges of numbers of the executions that were undone then
    space           INTEGER NOT NULL, -- of the files on the disk, together
    manifest        BLOB    NOT NULL, -- the files
    UNIQUE (session, id)
);

-- What the files of checkpoints hold, as digests of blobs.
CREATE TABLE checkpoint_files (
    digest     TEXT    NOT NULL,
    checkpoint INTEGER NOT NULL REFERENCES checkpoints (n) ON DELETE CASCADE,
    PRIMARY KEY (digest, checkpoint)
) WITHOUT ROWID;
CREATE INDEX checkpoint_files_checkpoint ON checkpoint_files (checkpoint);
