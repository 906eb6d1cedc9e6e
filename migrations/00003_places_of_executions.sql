-- +goose Up
-- Where the events of an execution lie in its session's log: that of its queueing, and those from its start to its end,
-- between which others' may lie. They take the place of an index over all events, which every event had to be put into.
ALTER TABLE executions ADD COLUMN queued_seq INTEGER;
ALTER TABLE executions ADD COLUMN started_seq INTEGER; -- of an execution that never started: that of its end
ALTER TABLE executions ADD COLUMN finished_seq INTEGER;
UPDATE executions SET
    queued_seq = (SELECT min(seq) FROM events e WHERE e.session = executions.session AND e.execution_id = executions.id),
    started_seq = (SELECT min(seq) FROM events e WHERE e.session = executions.session AND e.execution_id = executions.id
        AND e.type <> 'execution_queued'),
    finished_seq = (SELECT max(seq) FROM events e WHERE e.session = executions.session AND e.execution_id = executions.id
        AND e.type = 'execution_finished');
DROP INDEX events_execution;
