-- Actions that ask for others, and what is too big for a row.

ALTER TABLE action
	ADD COLUMN trace          text NOT NULL DEFAULT '', -- W3C traceparent of who enqueued it
	ADD COLUMN parameters_ref text NOT NULL DEFAULT ''; -- blob key of parameters that are not in the row
CREATE INDEX action_name ON action (kind, name, id);

ALTER TABLE thread ADD COLUMN progress smallint NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100); -- per cent

ALTER TABLE thread_done ADD COLUMN output_ref text NOT NULL DEFAULT ''; -- blob key of an output that is not in the row
