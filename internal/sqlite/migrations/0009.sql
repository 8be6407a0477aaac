-- How the request for a job wants what the job makes, and who else is told of a job that the payload cache answered with.

ALTER TABLE action ADD COLUMN answer TEXT CHECK (answer IS NULL OR json_valid(answer));

-- Subscribers of later requests for a live job; that of the first is in the action. The job's end deletes them.
CREATE TABLE subscriber (
  action_id       BLOB    NOT NULL CHECK (length(action_id) = 16),
  id              BLOB    NOT NULL CHECK (length(id) = 16),
  success_uri     TEXT    NOT NULL,
  in_progress_uri TEXT    NOT NULL,
  failed_uri      TEXT    NOT NULL,
  created_at      INTEGER NOT NULL,
  PRIMARY KEY (action_id, id)
) STRICT, WITHOUT ROWID;
