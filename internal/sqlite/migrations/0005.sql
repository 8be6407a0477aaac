-- The recorded position orders the events of all actions: the transaction that wrote a row. Rows of before have none.

ALTER TABLE meta ADD COLUMN tx INTEGER NOT NULL DEFAULT 0; -- counts the transactions that wrote events
ALTER TABLE action ADD COLUMN tx INTEGER;
ALTER TABLE event ADD COLUMN tx INTEGER;
DROP INDEX action_enqueued;
DROP INDEX event_at;
