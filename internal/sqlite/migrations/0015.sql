-- The history of a target walks the starts of deployments there. No released version asked for what entry_mark had.

DROP INDEX entry_mark;
CREATE INDEX entry_start ON entry (target_id, seq) WHERE event_name IN (
  'pipeline-started', 'stage-started', 'host-group-started', 'host-started');
CREATE INDEX stage_run_ended ON stage_run (pipeline_id, ended_at);
