CREATE TABLE triggers (
    agent TEXT NOT NULL,
    trigger TEXT NOT NULL,
    digest TEXT NOT NULL,
    anchor REAL NOT NULL,
    looked_at REAL NOT NULL,
    PRIMARY KEY (agent, trigger)
) WITHOUT ROWID;

CREATE TABLE firings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_key TEXT NOT NULL,
    agent TEXT NOT NULL,
    trigger TEXT NOT NULL,
    key TEXT NOT NULL,
    due_at REAL NOT NULL,
    message TEXT,
    state TEXT NOT NULL,
    reason TEXT,
    execution_id INTEGER REFERENCES executions (id),
    decided_at REAL,
    UNIQUE (agent_key, trigger, key)
);

CREATE INDEX firings_due ON firings (id) WHERE state = 'due';
CREATE INDEX firings_of_execution ON firings (execution_id) WHERE execution_id IS NOT NULL;

CREATE TABLE trigger_pauses (
    agent TEXT PRIMARY KEY,
    by TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
