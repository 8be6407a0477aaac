-- Measures of deployments walk the runs of stages by their ends. The history of a target walks entry_mark.

CREATE INDEX CONCURRENTLY stage_run_ended ON stage_run (pipeline_id, ended_at);
