-- +goose Up
-- What a session keeps, in bytes: of events and executions, and of artifacts on the disk.
ALTER TABLE sessions ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN artifact_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE refs ADD COLUMN uses INTEGER NOT NULL DEFAULT 1;  -- events whose body it is
ALTER TABLE refs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0; -- disk space, of a public one
ALTER TABLE refs ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;   -- the event that first named it

UPDATE sessions SET log_bytes =
    (SELECT coalesce(sum(e.size + 64), 0) FROM events e WHERE e.session = sessions.n) +
    (SELECT coalesce(sum(length(x.code) + length(x.text) + length(coalesce(x.error, '')) + length(x.artifacts)), 0)
        FROM executions x WHERE x.session = sessions.n);
UPDATE refs SET uses = u.uses FROM
    (SELECT session, digest, count(*) AS uses FROM events WHERE digest IS NOT NULL GROUP BY session, digest) u
    WHERE refs.kind = 'event' AND refs.session = u.session AND refs.digest = u.digest;
UPDATE refs SET bytes = a.size, seq = a.seq FROM
    (SELECT session, sha256, max(size) AS size, min(seq) AS seq FROM artifacts WHERE sha256 <> '' GROUP BY session, sha256) a
    WHERE refs.kind = 'public' AND refs.session = a.session AND refs.digest = a.sha256;
UPDATE sessions SET artifact_bytes =
    (SELECT coalesce(sum(r.bytes), 0) FROM refs r WHERE r.session = sessions.n AND r.kind = 'public');

-- The newest version of a file, and the files that have a version.
CREATE INDEX artifacts_path ON artifacts (session, path, seq);
CREATE INDEX artifacts_digest ON artifacts (session, sha256) WHERE sha256 <> '';
