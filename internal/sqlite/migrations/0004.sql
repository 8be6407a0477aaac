-- What lists select by. Ends of jobs are selected by their status and by how long they took; the ends of everything
-- else are too many to keep an entry for each.

CREATE INDEX action_retry ON action (retry_of, id) WHERE retry_of IS NOT NULL;
CREATE INDEX action_reference ON action (parameters_ref) WHERE parameters_ref <> '';
CREATE INDEX thread_done_job ON thread_done (status, id) WHERE job IS NOT 0;
CREATE INDEX thread_done_took ON thread_done (finished_at - started_at, id) WHERE job IS NOT 0;
