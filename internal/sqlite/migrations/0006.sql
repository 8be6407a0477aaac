-- Streams read by the recorded position; keys of requests are deleted after a day.

CREATE INDEX action_tx ON action (tx);
CREATE INDEX event_tx ON event (tx);
CREATE INDEX cache_entry_made ON cache_entry (created_at) WHERE scope = 'idempotency';
