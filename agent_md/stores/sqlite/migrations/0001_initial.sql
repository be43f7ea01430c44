CREATE TABLE specs (
    digest TEXT PRIMARY KEY,
    body TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE executions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    spec_digest TEXT NOT NULL REFERENCES specs (digest),
    trigger TEXT NOT NULL,
    session_id TEXT,
    parent_id INTEGER REFERENCES executions (id),
    seed TEXT NOT NULL,
    status TEXT NOT NULL,
    worker TEXT,
    epoch INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    created_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    work_ms INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    output TEXT,
    cancelled_by TEXT
);

CREATE INDEX executions_active ON executions (id) WHERE status IN ('queued', 'running', 'waiting');
CREATE INDEX executions_conversation ON executions (agent, session_id);

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id INTEGER NOT NULL REFERENCES executions (id),
    key TEXT NOT NULL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    data TEXT NOT NULL,
    at REAL NOT NULL,
    UNIQUE (execution_id, key)
);

CREATE TABLE usage (
    execution_id INTEGER NOT NULL REFERENCES executions (id),
    turn INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd REAL,
    PRIMARY KEY (execution_id, turn)
) WITHOUT ROWID;

CREATE TABLE calls (
    execution_id INTEGER NOT NULL REFERENCES executions (id),
    turn INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    decision TEXT NOT NULL,
    reason TEXT,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    edited_args TEXT,
    effect_before TEXT,
    effect_after TEXT,
    outcome TEXT,
    PRIMARY KEY (execution_id, turn, idx)
) WITHOUT ROWID;

CREATE TABLE steps (
    execution_id INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    number INTEGER NOT NULL,
    function TEXT NOT NULL,
    state TEXT NOT NULL,
    result TEXT,
    error TEXT,
    PRIMARY KEY (execution_id, turn, idx, number),
    FOREIGN KEY (execution_id, turn, idx) REFERENCES calls (execution_id, turn, idx)
) WITHOUT ROWID;

CREATE TABLE requests (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    execution_id INTEGER NOT NULL REFERENCES executions (id),
    turn INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    source TEXT NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    digest TEXT NOT NULL,
    occurrence INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL
);

CREATE INDEX requests_of_execution ON requests (execution_id);

CREATE TABLE answers (
    request_id TEXT PRIMARY KEY REFERENCES requests (id),
    outcome TEXT NOT NULL,
    value TEXT NOT NULL,
    digest TEXT,
    answered_by TEXT NOT NULL,
    answered_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    started_at REAL NOT NULL
) WITHOUT ROWID;
