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
