INSERT INTO meta VALUES (1, x'019b8d996900700080000000000000ff', 1);
INSERT INTO pipeline_head VALUES (1, 'greeter', 1, 3, 1, 1, NULL, 2);
INSERT INTO pipeline VALUES (1, 1, '{"pipeline":"greeter"}', 'pipeline: greeter', 'ana', 1767607200000000);
INSERT INTO revision VALUES (1, 1, '3f2c9a1', '3f2c9a1d', 'Say hello', 1767607100000000, 'snapshot', 'sealed', 'ana', 1767607200000000);
INSERT INTO revision_artifact VALUES (1, 1, 'amd64', 'greeter', '9b1e', 7, 'artifact/9b1e', '');
INSERT INTO deployment VALUES (1, 1, x'019b8d99690070008000000000000001', 'forward', 1, 1, 'active', 'ana', 1767607200000000, NULL);
INSERT INTO target VALUES (1, 1, 'greeter', 0, 0, 0, NULL, 0, NULL), (2, 1, 'greeter/beta/all/oak', 1, 1, 1, 1767607201000000, 0, NULL);
INSERT INTO entry VALUES
  (1, 1, 1, 1, 'deployment-created', 0, 1, 1, 1, 1767607200000000, NULL),
  (1, 2, 1, 2, 'step-claimed', 1, 2, 1, 1, 1767607200500000, '{"event":"host-deployed"}'),
  (1, 3, 1, 2, 'host-deployed', 0, 1, 1, 1, 1767607201000000, '{"attempt":1}');
INSERT INTO action VALUES
  (x'019b8d99690070008000000000000002', 1767607200000000, 1767607200000000, 'step', 'host-deployed oak', 'step', 'step/oak', 100, 'key',
   NULL, NULL, '{"n":1}', '{"retries":5,"initial":"5s","factor":2,"max":"5m0s","jitter":0.1,"attemptTimeout":"30s","deadline":"168h0m0s"}',
   'at-least-once', 1767607200000000, 'ana', 'greeter', 1, 'greeter/beta/all/oak', 'host-deployed', 1, 1),
  (x'019b8d99690070008000000000000003', 1767607200000000, 1767607200000000, 'job', 'mirror', 'noop', 'noop', 50, '',
   NULL, x'019b8d99690070008000000000000002', NULL, '{"retries":0,"initial":"5s","factor":2,"max":"5m0s","jitter":0,"attemptTimeout":"30s","deadline":"0s"}',
   'at-most-once', 1767607200000000, 'ben', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO event VALUES
  (x'019b8d99690070008000000000000002', 1, 3, 1, 0, 1767607200600000, 'host-a', NULL, '', '', ''),
  (x'019b8d99690070008000000000000002', 2, 5, 1, 0, 1767607201000000, 'host-a', NULL, '', '', 'archive'),
  (x'019b8d99690070008000000000000003', 1, 4, 1, 0, 1767607200700000, 'rescue', 1767607200700000, 'lease_lost', 'lease lost on host-a', '');
INSERT INTO thread VALUES (x'019b8d99690070008000000000000003', 'noop', NULL, 40000000, 4, 1, 1767607250700000, 1767607200700000, 1, 1, 0, 1, 0,
  NULL, NULL, 1767607200600000, NULL, 0, NULL);
INSERT INTO thread_done VALUES (x'019b8d99690070008000000000000002', 'step/oak', 5, 2, 1, 0, 0, 1767607200600000, 1767607201000000, '', '', 'archive', '{"took":3}');
INSERT INTO token VALUES (x'00000000000000000000000000000000000000000000000000000000000000ab', 'ci', '["read"]', 1767607200000000, NULL, NULL);
