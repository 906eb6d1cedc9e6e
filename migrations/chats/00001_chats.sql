-- +goose Up
-- What a gateway must know after a restart. Times are milliseconds since 1970.

-- Updates of the platform: each is handled once. Handled ones are kept for a while, since platforms repeat themselves.
CREATE TABLE updates (
  n           INTEGER PRIMARY KEY AUTOINCREMENT,
  id          TEXT NOT NULL UNIQUE,
  chat        TEXT NOT NULL, -- key of the chat
  body        BLOB NOT NULL, -- JSON
  received_at INTEGER NOT NULL,
  handled     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX updates_open ON updates (chat, n) WHERE handled = 0;

-- Where to go on to receive updates.
CREATE TABLE position (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  value TEXT NOT NULL
) STRICT;

CREATE TABLE chats (
  key     TEXT PRIMARY KEY, -- platform:account:chat:thread
  body    BLOB NOT NULL,    -- JSON: address, session, conversation
  open    INTEGER NOT NULL DEFAULT 0, -- whether the assistant has something to do
  log_id  TEXT NOT NULL DEFAULT '', -- of the session's log
  seq     INTEGER NOT NULL DEFAULT 0, -- up to where its events were handled
  last    TEXT NOT NULL DEFAULT '' -- id of the newest message that is known
) STRICT;

-- Cells that were run in a chat, until their result is in the outbox.
CREATE TABLE cells (
  execution TEXT PRIMARY KEY,
  chat      TEXT NOT NULL,
  body      BLOB NOT NULL, -- JSON: who asked, the message with its progress, a question that is open
  done      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX cells_open ON cells (chat) WHERE done = 0;

-- What the bot says, in order. A row is deleted some time after it was sent.
CREATE TABLE outbox (
  n       INTEGER PRIMARY KEY AUTOINCREMENT,
  key     TEXT NOT NULL UNIQUE, -- the same thing is said once
  chat    TEXT NOT NULL,
  body    BLOB NOT NULL, -- JSON
  state   INTEGER NOT NULL DEFAULT 0, -- 0 planned, 1 on its way, 2 sent, 3 given up
  message TEXT NOT NULL DEFAULT '', -- its id on the platform
  sent_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX outbox_open ON outbox (chat, n) WHERE state < 2;
CREATE INDEX outbox_message ON outbox (chat, message) WHERE message <> '';

-- When a chat was last written to, and until when it must not be.
CREATE TABLE pace (
  chat   TEXT PRIMARY KEY, -- the platform's chat, without the thread; '' is all of them
  body   BLOB NOT NULL
) STRICT;

CREATE TABLE people (
  id        TEXT PRIMARY KEY,
  name      TEXT NOT NULL,
  admin     INTEGER NOT NULL,
  paired_at INTEGER NOT NULL
) STRICT;

CREATE TABLE codes (
  hash       TEXT PRIMARY KEY, -- SHA-256 of the code
  admin      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
