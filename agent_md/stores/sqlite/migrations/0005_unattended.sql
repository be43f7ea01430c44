ALTER TABLE executions ADD COLUMN begun TEXT;
ALTER TABLE executions ADD COLUMN work_mark INTEGER;
ALTER TABLE executions ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions DROP COLUMN attempts;

CREATE TABLE attempts (
    execution_id INTEGER NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    place TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (execution_id, place)
) WITHOUT ROWID;

ALTER TABLE executions ADD COLUMN cut TEXT;

CREATE TABLE reservations (
    execution_id INTEGER PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    agent TEXT NOT NULL,
    worker TEXT NOT NULL,
    amount REAL NOT NULL
);

CREATE INDEX reservations_of_agent ON reservations (agent);

CREATE TABLE refusals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    trigger TEXT NOT NULL,
    session_id TEXT,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    at REAL NOT NULL
);

CREATE INDEX refusals_of_agent ON refusals (agent, id);

-- what has expired was decided at its deadline, and recorded when somebody looked
ALTER TABLE answers ADD COLUMN recorded_at REAL NOT NULL DEFAULT 0;
UPDATE answers SET recorded_at = answered_at;
UPDATE answers SET answered_at = (SELECT r.expires_at FROM requests r WHERE r.id = answers.request_id)
WHERE outcome = 'expired' AND EXISTS (SELECT 1 FROM requests r WHERE r.id = answers.request_id AND r.expires_at IS NOT NULL);

CREATE TABLE settlements (
    execution_id INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    ran INTEGER NOT NULL,
    note TEXT,
    settled_by TEXT NOT NULL,
    settled_at REAL NOT NULL,
    PRIMARY KEY (execution_id, turn, idx),
    FOREIGN KEY (execution_id, turn, idx) REFERENCES calls (execution_id, turn, idx)
) WITHOUT ROWID;

CREATE INDEX calls_unknown ON calls (execution_id) WHERE state = 'unknown';

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

ALTER TABLE firings ADD COLUMN hop INTEGER NOT NULL DEFAULT 0;

CREATE TABLE watched_files (
    agent TEXT NOT NULL,
    path TEXT NOT NULL,
    stamp TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (agent, path)
) WITHOUT ROWID;

CREATE INDEX executions_finished ON executions (finished_at) WHERE finished_at IS NOT NULL;

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
