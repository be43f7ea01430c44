ALTER TABLE executions ADD COLUMN idempotency_key TEXT;
ALTER TABLE executions ADD COLUMN idempotency_digest TEXT;
CREATE UNIQUE INDEX executions_idempotency ON executions (agent, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX executions_status ON executions (status);
