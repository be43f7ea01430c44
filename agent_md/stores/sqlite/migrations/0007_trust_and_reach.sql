-- executions that others have called: the one at the top, and the call that started each
ALTER TABLE executions ADD COLUMN root_id INTEGER;
UPDATE executions SET root_id = id;
CREATE INDEX executions_of_root ON executions (root_id);
ALTER TABLE executions ADD COLUMN parent_turn INTEGER;
ALTER TABLE executions ADD COLUMN parent_idx INTEGER;
CREATE UNIQUE INDEX executions_of_call ON executions (parent_id, parent_turn, parent_idx) WHERE parent_turn IS NOT NULL;

-- what calls wait for: answers, and the ends of children
CREATE VIEW waits AS
SELECT r.id AS id, r.kind AS kind, r.execution_id AS execution_id, r.turn AS turn, r.idx AS idx, r.state = 'open' AS open
FROM request_states r
UNION ALL
SELECT 'child:' || c.id, 'child', c.parent_id, c.parent_turn, c.parent_idx, c.finished_at IS NULL
FROM executions c WHERE c.parent_id IS NOT NULL;
-- what MCP servers said of their tools, as JSON, each list once
CREATE TABLE mcp_lists (
    digest TEXT PRIMARY KEY,
    tools TEXT NOT NULL
) WITHOUT ROWID;

-- what each server said last
CREATE TABLE mcp_servers (
    name TEXT PRIMARY KEY,
    digest TEXT NOT NULL REFERENCES mcp_lists,
    heard_at REAL NOT NULL
) WITHOUT ROWID;

-- what each execution began with
CREATE TABLE execution_mcp_lists (
    execution_id INTEGER NOT NULL REFERENCES executions,
    server TEXT NOT NULL,
    digest TEXT NOT NULL REFERENCES mcp_lists,
    PRIMARY KEY (execution_id, server)
) WITHOUT ROWID;

-- which request was shown to whom, by the name that would stand beside the answer
CREATE TABLE showings (
    request_id TEXT NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
    shown_to TEXT NOT NULL,
    shown_at REAL NOT NULL,
    PRIMARY KEY (request_id, shown_to)
) WITHOUT ROWID;
