-- How the request for a job wants what the job makes, and who else is told of a job that the payload cache answered with.

ALTER TABLE action ADD COLUMN answer json;

-- Subscribers of later requests for a live job; that of the first is in the action. The job's end deletes them.
CREATE TABLE subscriber (
	action_id       uuid        NOT NULL,
	id              uuid        NOT NULL,
	success_uri     text        NOT NULL,
	in_progress_uri text        NOT NULL,
	failed_uri      text        NOT NULL,
	created_at      timestamptz NOT NULL,
	PRIMARY KEY (action_id, id)
);
