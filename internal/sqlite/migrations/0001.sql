-- Times are microseconds since 1970 UTC, ids are UUIDs as 16 bytes, JSON is text.

CREATE TABLE meta (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  ledger_id BLOB    NOT NULL CHECK (length(ledger_id) = 16),
  schema    INTEGER NOT NULL
) STRICT;

-- The log of each pipeline ------------------------------------------------------

CREATE TABLE pipeline_head (
  id       INTEGER PRIMARY KEY,
  name     TEXT    NOT NULL UNIQUE,
  version  INTEGER NOT NULL DEFAULT 0,
  seq      INTEGER NOT NULL DEFAULT 0,
  newest   INTEGER NOT NULL DEFAULT 0,
  deployed INTEGER NOT NULL DEFAULT 0,
  owner    BLOB,
  epoch    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Every version of a definition is kept.
CREATE TABLE pipeline (
  pipeline_id INTEGER NOT NULL REFERENCES pipeline_head,
  version     INTEGER NOT NULL,
  definition  TEXT    NOT NULL CHECK (json_valid(definition)),
  source      TEXT    NOT NULL,
  created_by  TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (pipeline_id, version)
) STRICT;

CREATE TABLE revision (
  pipeline_id  INTEGER NOT NULL REFERENCES pipeline_head,
  seq          INTEGER NOT NULL,
  label        TEXT    NOT NULL,
  "commit"     TEXT    NOT NULL,
  subject      TEXT    NOT NULL,
  committed_at INTEGER,
  snapshot     TEXT    NOT NULL,
  state        TEXT    NOT NULL CHECK (state IN ('open', 'sealed', 'rejected')),
  created_by   TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (pipeline_id, seq),
  UNIQUE (pipeline_id, label)
) STRICT, WITHOUT ROWID;

CREATE TABLE revision_artifact (
  pipeline_id INTEGER NOT NULL,
  revision    INTEGER NOT NULL,
  label       TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  digest      TEXT    NOT NULL,
  size        INTEGER NOT NULL,
  blob        TEXT    NOT NULL,
  build       TEXT    NOT NULL,
  PRIMARY KEY (pipeline_id, revision, label),
  FOREIGN KEY (pipeline_id, revision) REFERENCES revision
) STRICT, WITHOUT ROWID;

CREATE TABLE deployment (
  pipeline_id INTEGER NOT NULL REFERENCES pipeline_head,
  number      INTEGER NOT NULL,
  id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
  kind        TEXT    NOT NULL,
  revision    INTEGER NOT NULL,
  version     INTEGER NOT NULL,
  status      TEXT    NOT NULL CHECK (status IN ('active', 'finished', 'failed', 'superseded', 'canceled')),
  created_by  TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  ended_at    INTEGER,
  PRIMARY KEY (pipeline_id, number),
  FOREIGN KEY (pipeline_id, revision) REFERENCES revision
) STRICT, WITHOUT ROWID;
CREATE INDEX deployment_active ON deployment (pipeline_id, number) WHERE status = 'active';
CREATE INDEX deployment_revision ON deployment (pipeline_id, revision, number);

-- A target and the roll-ups of what has passed it.
CREATE TABLE target (
  id          INTEGER PRIMARY KEY,
  pipeline_id INTEGER NOT NULL REFERENCES pipeline_head,
  path        TEXT    NOT NULL,
  current     INTEGER NOT NULL DEFAULT 0, -- the highest deployment that finished here
  revision    INTEGER NOT NULL DEFAULT 0, -- of current
  highest     INTEGER NOT NULL DEFAULT 0, -- the largest revision that finished here
  finished_at INTEGER,                    -- of current
  failed      INTEGER NOT NULL DEFAULT 0, -- the deployment that failed here last
  failed_at   INTEGER,
  UNIQUE (pipeline_id, path)
) STRICT;

-- Events are text: a table of names would join the writers of all pipelines.
CREATE TABLE entry (
  pipeline_id        INTEGER NOT NULL,
  seq                INTEGER NOT NULL,
  deployment         INTEGER NOT NULL,
  target_id          INTEGER NOT NULL REFERENCES target,
  event_name         TEXT    NOT NULL,
  occurrence         INTEGER NOT NULL,
  class              INTEGER NOT NULL CHECK (class BETWEEN 1 AND 3),
  revision           INTEGER NOT NULL,
  definition_version INTEGER NOT NULL,
  created_at         INTEGER NOT NULL,
  detail             TEXT CHECK (detail IS NULL OR json_valid(detail)),
  PRIMARY KEY (pipeline_id, seq),
  CHECK ((class = 1) = (occurrence = 0)),
  CHECK ((class = 3) = (deployment = 0))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entry_once ON entry (pipeline_id, deployment, target_id, event_name, occurrence);
CREATE INDEX entry_mark ON entry (target_id, seq) WHERE event_name IN (
  'pipeline-finished-successfully', 'stage-finished-successfully', 'host-group-finished-successfully',
  'host-finished-successfully', 'pipeline-failed', 'stage-failed', 'host-group-failed', 'host-failed', 'step-failed');

CREATE TRIGGER entry_update BEFORE UPDATE ON entry BEGIN
  SELECT RAISE(ABORT, 'an entry is never changed');
END;
CREATE TRIGGER entry_delete BEFORE DELETE ON entry BEGIN
  SELECT RAISE(ABORT, 'an entry is never deleted');
END;

CREATE TABLE step_introduction (
  pipeline_id    INTEGER NOT NULL REFERENCES pipeline_head,
  stage          TEXT    NOT NULL,
  event_name     TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  revision_after INTEGER NOT NULL,
  strict         INTEGER NOT NULL,
  PRIMARY KEY (pipeline_id, version, stage, event_name)
) STRICT, WITHOUT ROWID;

CREATE TABLE stage_run (
  pipeline_id INTEGER NOT NULL REFERENCES pipeline_head,
  deployment  INTEGER NOT NULL,
  stage       TEXT    NOT NULL,
  revision    INTEGER NOT NULL,
  started_at  INTEGER NOT NULL,
  ended_at    INTEGER,
  outcome     TEXT    NOT NULL,
  PRIMARY KEY (pipeline_id, deployment, stage)
) STRICT, WITHOUT ROWID;

CREATE TABLE resource (
  address     TEXT    NOT NULL,
  service     TEXT    NOT NULL,
  pipeline_id INTEGER NOT NULL REFERENCES pipeline_head,
  target      TEXT    NOT NULL,
  deployment  INTEGER NOT NULL,
  revision    INTEGER NOT NULL,
  finished    INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  PRIMARY KEY (address, service)
) STRICT, WITHOUT ROWID;
CREATE INDEX resource_pipeline ON resource (pipeline_id);

-- Actions -----------------------------------------------------------------------

CREATE TABLE action (
  id                 BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  created_at         INTEGER NOT NULL,
  enqueued_at        INTEGER NOT NULL,
  kind               TEXT    NOT NULL,
  name               TEXT    NOT NULL,
  handler            TEXT    NOT NULL,
  lane               TEXT    NOT NULL,
  priority           INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 1000),
  unique_key         TEXT    NOT NULL,
  parent_id          BLOB,
  retry_of           BLOB,
  parameters         TEXT CHECK (parameters IS NULL OR json_valid(parameters)),
  policy             TEXT    NOT NULL CHECK (json_valid(policy)),
  delivery           TEXT    NOT NULL,
  run_at             INTEGER NOT NULL,
  created_by         TEXT    NOT NULL,
  pipeline           TEXT,
  deployment         INTEGER,
  target             TEXT,
  event_name         TEXT,
  revision           INTEGER,
  definition_version INTEGER,
  CHECK ((pipeline IS NULL) = (deployment IS NULL) AND (pipeline IS NULL) = (target IS NULL)
     AND (pipeline IS NULL) = (event_name IS NULL) AND (pipeline IS NULL) = (revision IS NULL)
     AND (pipeline IS NULL) = (definition_version IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX action_deployment ON action (pipeline, deployment, id) WHERE pipeline IS NOT NULL;
CREATE INDEX action_parent ON action (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX action_handler ON action (handler, id);

CREATE TRIGGER action_update BEFORE UPDATE ON action BEGIN
  SELECT RAISE(ABORT, 'an action is never changed');
END;
CREATE TRIGGER action_delete BEFORE DELETE ON action BEGIN
  SELECT RAISE(ABORT, 'an action is never deleted');
END;

CREATE TABLE event (
  action_id BLOB    NOT NULL REFERENCES action,
  seq       INTEGER NOT NULL CHECK (seq > 0),
  status    INTEGER NOT NULL CHECK (status BETWEEN 2 AND 10),
  attempt   INTEGER NOT NULL,
  spent     INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  source    TEXT    NOT NULL,
  until     INTEGER,
  code      TEXT    NOT NULL,
  error     TEXT    NOT NULL,
  ref       TEXT    NOT NULL,
  PRIMARY KEY (action_id, seq),
  CHECK (status <> 4 OR until IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN
  SELECT RAISE(ABORT, 'an event is never changed');
END;
CREATE TRIGGER event_delete BEFORE DELETE ON event BEGIN
  SELECT RAISE(ABORT, 'an event is never deleted');
END;

-- One row per live action.
CREATE TABLE thread (
  id            BLOB    NOT NULL PRIMARY KEY REFERENCES action DEFERRABLE INITIALLY DEFERRED,
  lane          TEXT    NOT NULL,
  unique_key    TEXT,
  attempt_limit INTEGER NOT NULL, -- from a claim to the end of its lease; 0: none
  status        INTEGER NOT NULL CHECK (status BETWEEN 1 AND 4),
  ready         INTEGER NOT NULL CHECK (ready IN (0, 1)),
  rank          INTEGER NOT NULL,
  run_at        INTEGER NOT NULL,
  seq           INTEGER NOT NULL,
  attempt       INTEGER NOT NULL,
  spent         INTEGER NOT NULL,
  lost          INTEGER NOT NULL,
  throttled     INTEGER NOT NULL,
  claimed_by    BLOB,
  lease         INTEGER,
  started_at    INTEGER,
  cancel_at     INTEGER,
  draining      INTEGER NOT NULL CHECK (draining IN (0, 1)),
  deadline      INTEGER,
  CHECK (ready = 0 OR (claimed_by IS NULL AND status IN (1, 4))),
  CHECK (lease IS NULL OR claimed_by IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_claim ON thread (lane, rank, id) WHERE ready = 1;
CREATE INDEX thread_due ON thread (run_at) WHERE ready = 0 AND claimed_by IS NULL AND status IN (1, 4);
CREATE INDEX thread_owner ON thread (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE UNIQUE INDEX thread_unique ON thread (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX thread_stop ON thread (run_at) WHERE cancel_at IS NOT NULL AND claimed_by IS NULL AND status IN (2, 3);
CREATE INDEX thread_deadline ON thread (deadline) WHERE deadline IS NOT NULL;

-- Legal changes of status: bit 4·(old-1)+(new-1). PENDING to all, QUEUED to all
-- but PENDING, RUNNING to itself and BACKOFF, BACKOFF to all but PENDING.
CREATE TRIGGER thread_update BEFORE UPDATE ON thread
WHEN ((0xECEF >> (4 * (OLD.status - 1) + NEW.status - 1)) & 1) = 0
  OR NEW.seq < OLD.seq OR NEW.attempt < OLD.attempt OR NEW.spent < OLD.spent OR NEW.id IS NOT OLD.id
BEGIN
  SELECT RAISE(ABORT, 'illegal_transition of a thread');
END;

-- The last state of an action that has ended.
CREATE TABLE thread_done (
  id          BLOB    NOT NULL PRIMARY KEY REFERENCES action,
  lane        TEXT    NOT NULL,
  status      INTEGER NOT NULL CHECK (status BETWEEN 5 AND 10),
  seq         INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  spent       INTEGER NOT NULL,
  lost        INTEGER NOT NULL,
  started_at  INTEGER,
  finished_at INTEGER NOT NULL,
  code        TEXT    NOT NULL,
  error       TEXT    NOT NULL,
  ref         TEXT    NOT NULL,
  output      TEXT CHECK (output IS NULL OR json_valid(output))
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_done_status ON thread_done (status, id);

CREATE TRIGGER thread_done_update BEFORE UPDATE ON thread_done BEGIN
  SELECT RAISE(ABORT, 'an end is never changed');
END;
CREATE TRIGGER thread_done_delete BEFORE DELETE ON thread_done BEGIN
  SELECT RAISE(ABORT, 'an end is never deleted');
END;

CREATE TABLE token (
  hash       BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  name       TEXT    NOT NULL UNIQUE,
  scopes     TEXT    NOT NULL CHECK (json_valid(scopes)),
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- For people with a shell ---------------------------------------------------------

CREATE VIEW deployment_log AS
SELECT lower(substr(hex(d.id), 1, 8) || '-' || substr(hex(d.id), 9, 4) || '-' || substr(hex(d.id), 13, 4) || '-' ||
       substr(hex(d.id), 17, 4) || '-' || substr(hex(d.id), 21)) AS id,
       t.path AS target_id,
       r.label AS revision,
       e.event_name,
       strftime('%Y-%m-%dT%H:%M:%S', e.created_at / 1000000, 'unixepoch') || printf('.%06dZ', e.created_at % 1000000) AS created_at
FROM entry e
JOIN target t ON t.id = e.target_id
LEFT JOIN deployment d ON d.pipeline_id = e.pipeline_id AND d.number = e.deployment
LEFT JOIN revision r ON r.pipeline_id = e.pipeline_id AND r.seq = e.revision;

CREATE VIEW action_status AS
SELECT lower(substr(hex(a.id), 1, 8) || '-' || substr(hex(a.id), 9, 4) || '-' || substr(hex(a.id), 13, 4) || '-' ||
       substr(hex(a.id), 17, 4) || '-' || substr(hex(a.id), 21)) AS id,
       a.name, a.handler, a.lane,
       CASE coalesce(t.status, d.status) WHEN 1 THEN 'PENDING' WHEN 2 THEN 'QUEUED' WHEN 3 THEN 'RUNNING' WHEN 4 THEN 'BACKOFF'
         WHEN 5 THEN 'SUCCESSFUL' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'CANCELED' WHEN 8 THEN 'TIMED_OUT' WHEN 9 THEN 'INVALID'
         ELSE 'RETRIES_EXHAUSTED' END AS status,
       coalesce(t.attempt, d.attempt) AS attempt, coalesce(t.spent, d.spent) AS spent, coalesce(d.error, '') AS error
FROM action a
LEFT JOIN thread t ON t.id = a.id
LEFT JOIN thread_done d ON d.id = a.id;
