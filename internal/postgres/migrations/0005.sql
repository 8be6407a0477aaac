-- The recorded position orders the events of all actions: the transaction that wrote a row, counted from the era's beginning. Rows of
-- before have none. The default serves older instances, too.

ALTER TABLE meta ADD COLUMN era int NOT NULL DEFAULT 0; -- raised when a cluster counts its transactions from the beginning
ALTER TABLE action ADD COLUMN tx bigint;
ALTER TABLE event ADD COLUMN tx bigint;
ALTER TABLE action ALTER COLUMN tx SET DEFAULT 0 + pg_current_xact_id()::text::bigint;
ALTER TABLE event ALTER COLUMN tx SET DEFAULT 0 + pg_current_xact_id()::text::bigint;
DROP INDEX action_enqueued;
DROP INDEX event_at;
