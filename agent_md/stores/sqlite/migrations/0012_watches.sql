ALTER TABLE firings ADD COLUMN hop INTEGER NOT NULL DEFAULT 0;

CREATE TABLE watched_files (
    agent TEXT NOT NULL,
    path TEXT NOT NULL,
    stamp TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (agent, path)
) WITHOUT ROWID;

CREATE INDEX executions_finished ON executions (finished_at) WHERE finished_at IS NOT NULL;
