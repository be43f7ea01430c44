-- executions of a conversation end in the order of these numbers, whatever the clock said
ALTER TABLE executions ADD COLUMN end_seq INTEGER;
UPDATE executions SET end_seq = (SELECT e.seq FROM events e WHERE e.execution_id = executions.id AND e.key = 'complete')
WHERE finished_at IS NOT NULL;
DROP INDEX executions_ended;
CREATE INDEX executions_ended ON executions (agent, session_id, end_seq) WHERE parent_id IS NULL;
