-- executions of a conversation end in the order of these numbers, whatever the clock said
ALTER TABLE executions ADD COLUMN end_seq INTEGER;
UPDATE executions SET end_seq = (SELECT e.seq FROM events e WHERE e.execution_id = executions.id AND e.key = 'complete')
WHERE finished_at IS NOT NULL;
DROP INDEX executions_ended;
CREATE INDEX executions_ended ON executions (agent, session_id, end_seq) WHERE parent_id IS NULL;

-- by what a delivery of a webhook is known: its id, its signature
CREATE TABLE delivery_keys (
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    firing_id INTEGER NOT NULL REFERENCES firings (id) ON DELETE CASCADE,
    at REAL NOT NULL,
    PRIMARY KEY (agent, key)
) WITHOUT ROWID;

CREATE INDEX delivery_keys_at ON delivery_keys (at);
CREATE INDEX delivery_keys_of_firing ON delivery_keys (firing_id);

CREATE TABLE grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id INTEGER NOT NULL REFERENCES executions (id),
    rule TEXT NOT NULL,
    scope TEXT NOT NULL,
    tool_module TEXT,
    tool_digest TEXT NOT NULL,
    given_by TEXT NOT NULL,
    given_at REAL NOT NULL,
    until REAL,
    ended TEXT,
    ended_by TEXT,
    ended_at REAL
);

CREATE INDEX grants_of_execution ON grants (execution_id);
CREATE INDEX grants_until ON grants (until) WHERE ended IS NULL;
-- a grant that has ended goes with its execution; these then name one that was there
ALTER TABLE answers ADD COLUMN grant_id INTEGER;
ALTER TABLE calls ADD COLUMN grant_id INTEGER;

-- an answer that was retracted, and the request that asks again
CREATE TABLE retractions (
    request_id TEXT PRIMARY KEY REFERENCES answers (request_id),
    replaced_by TEXT NOT NULL UNIQUE REFERENCES requests (id),
    retracted_by TEXT NOT NULL,
    retracted_at REAL NOT NULL
) WITHOUT ROWID;

-- when the call acted on the answer; of an older answer it is only known whether it may have
ALTER TABLE answers ADD COLUMN used_at REAL;
UPDATE answers SET used_at = recorded_at WHERE EXISTS (
    SELECT 1 FROM requests r JOIN calls c ON c.execution_id = r.execution_id AND c.turn = r.turn AND c.idx = r.idx
    WHERE r.id = answers.request_id AND c.state <> 'proposed'
);

-- the one place that knows which requests are open: whatever asks for open or answered ones asks this
CREATE VIEW request_states AS
SELECT r.seq, r.id, r.execution_id, r.turn, r.idx, r.source, r.kind, r.message, r.digest, r.occurrence, r.body,
       r.created_at, r.expires_at,
       CASE WHEN t.request_id IS NOT NULL THEN 'retracted' WHEN a.request_id IS NOT NULL THEN 'answered' ELSE 'open' END
           AS state,
       a.outcome, a.value, a.answered_by, a.answered_at, a.recorded_at, a.digest AS answered_digest, a.grant_id,
       a.used_at,
       t.retracted_by, t.retracted_at, t.replaced_by,
       (SELECT p.request_id FROM retractions p WHERE p.replaced_by = r.id) AS replaces
FROM requests r
LEFT JOIN answers a ON a.request_id = r.id
LEFT JOIN retractions t ON t.request_id = r.id;

-- what each call of a model cost; these rows stay when the execution is removed. `root_agent` has started the execution that it is part of
CREATE TABLE ledger (
    execution_id INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    agent TEXT NOT NULL,
    root_agent TEXT NOT NULL,
    model TEXT,
    at REAL NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd REAL,
    PRIMARY KEY (execution_id, turn)
) WITHOUT ROWID;

INSERT INTO ledger
SELECT u.execution_id, u.turn, x.agent, x.agent,
       json_extract(s.body, '$.model.provider') || '/' || json_extract(s.body, '$.model.name'),
       e.at, u.input_tokens, u.output_tokens, u.cost_usd
FROM usage u JOIN executions x ON x.id = u.execution_id JOIN specs s ON s.digest = x.spec_digest
JOIN events e ON e.execution_id = u.execution_id AND e.key = 'ai:' || u.turn;

INSERT INTO ledger
SELECT t.execution_id, u.key, t.agent, t.agent,
       json_extract(t.model, '$.provider') || '/' || json_extract(t.model, '$.name'),
       json_extract(u.value, '$[0]'), json_extract(u.value, '$[1]'), json_extract(u.value, '$[2]'),
       json_extract(u.value, '$[3]')
FROM tombstones t, json_each(t.usage) u;

DROP TABLE usage;
ALTER TABLE tombstones DROP COLUMN usage;
CREATE INDEX ledger_by_time ON ledger (at, cost_usd);
CREATE INDEX ledger_of_agent ON ledger (agent, at, cost_usd);
CREATE INDEX ledger_of_root ON ledger (root_agent, at, cost_usd);

-- calls that wait for money have a place, counted up; NULL = the money is held
ALTER TABLE reservations ADD COLUMN root_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE reservations ADD COLUMN place INTEGER;
UPDATE reservations SET root_agent = agent;

CREATE INDEX firings_skipped ON firings (agent_key, id) WHERE state = 'skipped';
