-- what has expired was decided at its deadline, and recorded when somebody looked
ALTER TABLE answers ADD COLUMN recorded_at REAL NOT NULL DEFAULT 0;
UPDATE answers SET recorded_at = answered_at;
UPDATE answers SET answered_at = (SELECT r.expires_at FROM requests r WHERE r.id = answers.request_id)
WHERE outcome = 'expired' AND EXISTS (SELECT 1 FROM requests r WHERE r.id = answers.request_id AND r.expires_at IS NOT NULL);
