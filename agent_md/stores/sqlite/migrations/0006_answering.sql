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

CREATE TABLE grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id INTEGER NOT NULL REFERENCES executions (id),
    rule TEXT NOT NULL,
    scope TEXT NOT NULL,
    tool_module TEXT,
    tool_digest TEXT NOT NULL,
    given_by TEXT NOT NULL,
    given_at REAL NOT NULL,
    until REAL,
    ended TEXT,
    ended_by TEXT,
    ended_at REAL
);

CREATE INDEX grants_of_execution ON grants (execution_id);
CREATE INDEX grants_until ON grants (until) WHERE ended IS NULL;
-- a grant that has ended goes with its execution; these then name one that was there
ALTER TABLE answers ADD COLUMN grant_id INTEGER;
ALTER TABLE calls ADD COLUMN grant_id INTEGER;
