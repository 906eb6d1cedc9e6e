-- +goose Up
-- Logins of browsers: what their cookies hold. A login ends with the token that it was made with.
CREATE TABLE logins (
    hash       BLOB    PRIMARY KEY, -- SHA-256 of what the cookie holds
    token      BLOB    NOT NULL REFERENCES tokens (hash) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    ends_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX logins_token ON logins (token, created_at);

-- How often a token or a login was revoked: a server that runs meanwhile sees that it has to look.
CREATE TABLE revocations (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    n  INTEGER NOT NULL
);
INSERT INTO revocations (id, n) VALUES (1, 0);
