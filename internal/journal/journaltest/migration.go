package journaltest

// RunsOfSchema1 is a format of SQL that stores runs of stages as schema 1 has them, with entries at three times: the
// literals of 10, 20 and 30 s (or µs) after 1970.
const RunsOfSchema1 = `INSERT INTO pipeline_head (name) VALUES ('other');
	INSERT INTO target (pipeline_id, path) SELECT id, name || '/beta' FROM pipeline_head;
	INSERT INTO target (pipeline_id, path) VALUES (1, 'greeter/beta-2/all/elm');
	INSERT INTO entry (pipeline_id, seq, deployment, target_id, event_name, occurrence, class, revision, definition_version, created_at)
	SELECT t.pipeline_id, n.seq, n.deployment, t.id, n.event, n.occurrence, CASE n.occurrence WHEN 0 THEN 1 ELSE 2 END, 1, 1, n.at
	FROM (SELECT 11 AS seq, 1 AS deployment, 'greeter/beta/all/oak' AS path, 'host-started' AS event, 0 AS occurrence, %[1]s AS at
		UNION ALL SELECT 12, 1, 'greeter/beta', 'stage-failed', 1, %[2]s
		UNION ALL SELECT 13, 1, 'greeter/beta', 'stage-failed', 2, %[3]s
		UNION ALL SELECT 14, 2, 'greeter/beta-2/all/elm', 'host-started', 0, %[1]s
		UNION ALL SELECT 15, 2, 'other/beta', 'stage-failed', 1, %[3]s) n
	JOIN target t ON t.path = n.path;
	INSERT INTO stage_run (pipeline_id, deployment, stage, revision, started_at, ended_at, outcome)
	SELECT h.id, n.deployment, n.stage, 1, %[1]s, NULL, ''
	FROM (SELECT 'greeter' AS name, 1 AS deployment, 'beta' AS stage UNION ALL SELECT 'greeter', 2, 'beta'
		UNION ALL SELECT 'greeter', 2, 'beta-2' UNION ALL SELECT 'other', 2, 'beta') n
	JOIN pipeline_head h ON h.name = n.name;`

// RunsMigrated returns these runs as newer schemas have them: pipeline, deployment, stage, time of the first failure, and
// whether the run has started a host.
func RunsMigrated() []string {
	return []string{"greeter|1|beta|20|1", "greeter|2|beta|0|0", "greeter|2|beta-2|0|1", "other|2|beta|30|0"}
}
