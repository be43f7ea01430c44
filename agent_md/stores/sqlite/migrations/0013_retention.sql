ALTER TABLE executions ADD COLUMN thread INTEGER NOT NULL DEFAULT 0;
CREATE INDEX executions_of_parent ON executions (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE tombstones (
    execution_id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    model TEXT,
    trigger TEXT NOT NULL,
    session_id TEXT,
    parent_id INTEGER,
    status TEXT NOT NULL,
    created_at REAL NOT NULL,
    finished_at REAL NOT NULL,
    removed_at REAL NOT NULL,
    usage TEXT NOT NULL,
    answers TEXT NOT NULL,
    firing TEXT,
    idempotency_key TEXT,
    idempotency_digest TEXT
);

CREATE INDEX tombstones_of_agent ON tombstones (agent, finished_at);
CREATE UNIQUE INDEX tombstones_idempotency ON tombstones (agent, idempotency_key) WHERE idempotency_key IS NOT NULL;
