-- What measures of deployments need and a retry or the end of a run would hide: that a run has failed, and that it has
-- started a host. Runs of before are filled from the log.

ALTER TABLE stage_run ADD COLUMN failed_at INTEGER; -- the first failure; a retry keeps it
ALTER TABLE stage_run ADD COLUMN changed INTEGER NOT NULL DEFAULT 0 CHECK (changed IN (0, 1)); -- 1: it has started a host

UPDATE stage_run SET failed_at = (
  SELECT min(e.created_at) FROM pipeline_head h
  CROSS JOIN target t ON t.pipeline_id = h.id AND t.path = h.name || '/' || stage_run.stage
  CROSS JOIN entry e INDEXED BY entry_once ON e.pipeline_id = h.id AND e.deployment = stage_run.deployment
    AND e.target_id = t.id AND e.event_name = 'stage-failed'
  WHERE h.id = stage_run.pipeline_id);

UPDATE stage_run SET changed = 1 WHERE EXISTS (
  SELECT 1 FROM pipeline_head h
  CROSS JOIN target t ON t.pipeline_id = h.id AND t.path > h.name || '/' || stage_run.stage || '/'
    AND t.path < h.name || '/' || stage_run.stage || '0'
  CROSS JOIN entry e INDEXED BY entry_once ON e.pipeline_id = h.id AND e.deployment = stage_run.deployment
    AND e.target_id = t.id AND e.event_name = 'host-started'
  WHERE h.id = stage_run.pipeline_id);
