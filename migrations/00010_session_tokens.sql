-- +goose Up
-- Tokens for one session stand beside its read-only links: rights is empty for a link, else the rights of the token,
-- separated by commas. ends_at is when a token expires; null: never.
ALTER TABLE shares ADD COLUMN rights TEXT NOT NULL DEFAULT '';
ALTER TABLE shares ADD COLUMN ends_at INTEGER;
