-- executions of a conversation end in the order of these numbers, whatever the clock said
ALTER TABLE executions ADD COLUMN end_seq INTEGER;
UPDATE executions SET end_seq = (SELECT e.seq FROM events e WHERE e.execution_id = executions.id AND e.key = 'complete')
WHERE finished_at IS NOT NULL;
DROP INDEX executions_ended;
CREATE INDEX executions_ended ON executions (agent, session_id, end_seq) WHERE parent_id IS NULL;
-- by what a delivery of a webhook is known: its id, its signature
CREATE TABLE delivery_keys (
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    firing_id INTEGER NOT NULL REFERENCES firings (id) ON DELETE CASCADE,
    at REAL NOT NULL,
    PRIMARY KEY (agent, key)
) WITHOUT ROWID;

CREATE INDEX delivery_keys_at ON delivery_keys (at);
CREATE INDEX delivery_keys_of_firing ON delivery_keys (firing_id);
