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
