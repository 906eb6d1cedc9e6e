-- +goose Up
-- What the front that submitted an execution needs to answer its request, also under a later server; only the front reads it.
ALTER TABLE executions ADD COLUMN origin BLOB;
-- JSON: expressions that are evaluated after the code, by name; NULL for most.
ALTER TABLE executions ADD COLUMN expressions TEXT;
