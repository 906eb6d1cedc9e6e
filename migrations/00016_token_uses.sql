-- +goose Up
-- When a request last used the token, in milliseconds; NULL before the first. It lags by up to a minute.
ALTER TABLE tokens ADD COLUMN last_used_at INTEGER;
ALTER TABLE shares ADD COLUMN last_used_at INTEGER;
