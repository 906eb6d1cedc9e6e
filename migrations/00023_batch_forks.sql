-- +goose Up
-- The session that the fresh session of the item is a fork of, by the id that clients use; '': none.
ALTER TABLE batch_items ADD COLUMN fork_of TEXT NOT NULL DEFAULT '';
