CREATE TABLE sessions (
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    deleted_at REAL,
    floor INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (agent, session_id)
) WITHOUT ROWID;

INSERT INTO sessions (agent, session_id, created_at)
SELECT agent, session_id, min(created_at) FROM executions
WHERE session_id IS NOT NULL AND parent_id IS NULL GROUP BY agent, session_id;

CREATE INDEX sessions_by_id ON sessions (session_id);
CREATE INDEX executions_ended ON executions (agent, session_id, finished_at) WHERE parent_id IS NULL;
