-- What measures of deployments need and a retry or the end of a run would hide: that a run has failed, and that it has
-- started a host. Runs of before are filled from the log.

ALTER TABLE stage_run ADD COLUMN failed_at timestamptz; -- the first failure; a retry keeps it
ALTER TABLE stage_run ADD COLUMN changed boolean NOT NULL DEFAULT false; -- it has started a host

UPDATE stage_run s SET failed_at = f.failed_at
FROM (SELECT r.pipeline_id, r.deployment, r.stage, min(e.created_at) AS failed_at
	FROM stage_run r
	JOIN pipeline_head h ON h.id = r.pipeline_id
	JOIN target t ON t.pipeline_id = h.id AND t.path = h.name || '/' || r.stage
	JOIN entry e ON e.pipeline_id = h.id AND e.deployment = r.deployment AND e.target_id = t.id AND e.event_name = 'stage-failed'
	GROUP BY r.pipeline_id, r.deployment, r.stage) f
WHERE s.pipeline_id = f.pipeline_id AND s.deployment = f.deployment AND s.stage = f.stage;

UPDATE stage_run s SET changed = true
FROM (SELECT DISTINCT e.pipeline_id, e.deployment, split_part(t.path, '/', 2) AS stage
	FROM entry e JOIN target t ON t.id = e.target_id WHERE e.event_name = 'host-started') c
WHERE s.pipeline_id = c.pipeline_id AND s.deployment = c.deployment AND s.stage = c.stage;
