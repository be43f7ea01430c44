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
