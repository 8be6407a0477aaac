-- The deployment of a build, when retention took its results, and what lists and the watchdog look for.

ALTER TABLE build ADD COLUMN deployment INTEGER NOT NULL DEFAULT 0; -- 0: of none
ALTER TABLE build ADD COLUMN target TEXT NOT NULL DEFAULT '';
ALTER TABLE build ADD COLUMN expired_at INTEGER; -- all but the row and its steps was removed

UPDATE build SET deployment = coalesce((SELECT a.deployment FROM action a WHERE a.id = action_id), 0),
  target = coalesce((SELECT a.target FROM action a WHERE a.id = action_id), '')
  WHERE action_id IS NOT NULL;

CREATE INDEX build_action ON build (action_id, build_id) WHERE action_id IS NOT NULL;
CREATE INDEX build_revision ON build (project, revision, build_id);
CREATE INDEX build_deployment ON build (project, deployment, build_id) WHERE deployment > 0;
CREATE INDEX build_unfinished ON build (build_id) WHERE status IN ('Scheduling', 'Running') AND deleted_at IS NULL;
CREATE INDEX build_kept ON build (build_id) WHERE status NOT IN ('Scheduling', 'Running') AND deleted_at IS NULL AND expired_at IS NULL;
