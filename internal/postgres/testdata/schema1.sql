UPDATE meta SET schema = 1;
CREATE TABLE action_2026w02 PARTITION OF action FOR VALUES FROM ('2026-01-05 00:00+00') TO ('2026-01-12 00:00+00');
CREATE TABLE event_2026w02 PARTITION OF event FOR VALUES FROM ('2026-01-05 00:00+00') TO ('2026-01-12 00:00+00');
CREATE TABLE thread_done_2026w02 PARTITION OF thread_done FOR VALUES FROM ('2026-01-05 00:00+00') TO ('2026-01-12 00:00+00');
INSERT INTO pipeline_head (name, version, seq, newest, deployed, epoch) VALUES ('greeter', 1, 3, 1, 1, 2);
INSERT INTO pipeline VALUES (1, 1, '{"pipeline":"greeter"}', 'pipeline: greeter', 'ana', '2026-01-05 10:00+00');
INSERT INTO revision VALUES (1, 1, '3f2c9a1', '3f2c9a1d', 'Say hello', '2026-01-05 09:58+00', 'snapshot', 'sealed', 'ana', '2026-01-05 10:00+00');
INSERT INTO revision_artifact VALUES (1, 1, 'amd64', 'greeter', '9b1e', 7, 'artifact/9b1e', '');
INSERT INTO deployment VALUES (1, 1, '019b8d99-6900-7000-8000-000000000001', 'forward', 1, 1, 'active', 'ana', '2026-01-05 10:00+00', NULL);
INSERT INTO target (pipeline_id, path, current, revision, highest, finished_at) VALUES
	(1, 'greeter', 0, 0, 0, NULL), (1, 'greeter/beta/all/oak', 1, 1, 1, '2026-01-05 10:00:01+00');
INSERT INTO entry VALUES
	(1, 1, 1, 1, 'deployment-created', 0, 1, 1, 1, '2026-01-05 10:00+00', NULL),
	(1, 2, 1, 2, 'step-claimed', 1, 2, 1, 1, '2026-01-05 10:00:00.5+00', '{"event":"host-deployed"}'),
	(1, 3, 1, 2, 'host-deployed', 0, 1, 1, 1, '2026-01-05 10:00:01+00', '{"attempt":1}');
INSERT INTO action VALUES
	('019b8d99-6900-7000-8000-000000000002', '2026-01-05 10:00+00', '2026-01-05 10:00+00', 'step', 'host-deployed oak', 'step', 'step/oak', 100, 'key',
	 NULL, NULL, '{"n":1}', '{"retries":5,"initial":"5s","factor":2,"max":"5m0s","jitter":0.1,"attemptTimeout":"30s","deadline":"168h0m0s"}',
	 'at-least-once', '2026-01-05 10:00+00', 'ana', 'greeter', 1, 'greeter/beta/all/oak', 'host-deployed', 1, 1),
	('019b8d99-6900-7000-8000-000000000003', '2026-01-05 10:00+00', '2026-01-05 10:00+00', 'job', 'mirror', 'noop', 'noop', 50, NULL,
	 NULL, '019b8d99-6900-7000-8000-000000000002', NULL,
	 '{"retries":0,"initial":"5s","factor":2,"max":"5m0s","jitter":0,"attemptTimeout":"30s","deadline":"0s"}',
	 'at-most-once', '2026-01-05 10:00+00', 'ben', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO event VALUES
	('019b8d99-6900-7000-8000-000000000002', '2026-01-05 10:00+00', 1, 3, 1, 0, '2026-01-05 10:00:00.6+00', 'host-a', NULL, NULL, NULL, NULL),
	('019b8d99-6900-7000-8000-000000000002', '2026-01-05 10:00+00', 2, 5, 1, 0, '2026-01-05 10:00:01+00', 'host-a', NULL, NULL, NULL, 'archive'),
	('019b8d99-6900-7000-8000-000000000003', '2026-01-05 10:00+00', 1, 4, 1, 0, '2026-01-05 10:00:00.7+00', 'rescue', '2026-01-05 10:00:00.7+00',
	 'lease_lost', 'lease lost on host-a', NULL);
INSERT INTO thread VALUES ('019b8d99-6900-7000-8000-000000000003', '2026-01-05 10:00+00', 'noop', 4, true, '2026-01-05 10:00:50.7+00',
	'2026-01-05 10:00:00.7+00', 1, 1, 0, 1, 0, '40 s', NULL, NULL, '2026-01-05 10:00:00.6+00', NULL, false, NULL, NULL);
INSERT INTO thread_done VALUES ('019b8d99-6900-7000-8000-000000000002', '2026-01-05 10:00+00', 'step/oak', 5, 2, 1, 0, 0, '2026-01-05 10:00+00',
	'2026-01-05 10:00:00.6+00', NULL, false, NULL, '2026-01-05 10:00:01+00', '', '', 'archive', '{"took":3}');
INSERT INTO token VALUES ('\xab', 'ci', '{read}', '2026-01-05 10:00+00', NULL, NULL);
