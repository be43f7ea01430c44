CREATE TABLE webhook_cursor (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL
);

INSERT INTO webhook_cursor (id, seq) SELECT 1, coalesce(max(seq), 0) FROM events;

CREATE TABLE webhook_targets (
    execution_id INTEGER PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    token TEXT,
    secret TEXT,
    include_messages INTEGER NOT NULL
);

CREATE TABLE deliveries (
    event_id TEXT PRIMARY KEY,
    event TEXT NOT NULL,
    execution_id INTEGER NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    target TEXT NOT NULL,
    lane TEXT NOT NULL,
    event_at REAL NOT NULL,
    due_at REAL NOT NULL,
    request_id TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    first_at REAL,
    body TEXT,
    holder TEXT
) WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (due_at);
CREATE INDEX deliveries_of_execution ON deliveries (execution_id);
