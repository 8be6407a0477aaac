-- Builds, and what their workers have recorded. A row of log_line is a block of consecutive entries of a step's log.

CREATE TABLE build (
  build_id            INTEGER PRIMARY KEY AUTOINCREMENT, -- a deleted id is not used again
  project             TEXT NOT NULL,
  branch              TEXT NOT NULL,
  "commit"            TEXT NOT NULL,
  revision            TEXT NOT NULL,
  environment         TEXT NOT NULL,
  stages              TEXT NOT NULL, -- JSON
  inputs              TEXT NOT NULL, -- JSON, without passwords
  engine              TEXT NOT NULL, -- empty: a worker of Waybill
  worker_id           TEXT NOT NULL,
  nonce               TEXT NOT NULL,
  rerun_of            INTEGER NOT NULL DEFAULT 0,
  action_id           BLOB,
  status              TEXT NOT NULL CHECK (status IN ('Scheduling', 'Running', 'Completed', 'Failed', 'Canceled', 'TimedOut', 'Lost', 'Skipped')),
  reason              TEXT NOT NULL DEFAULT '',
  message             TEXT NOT NULL DEFAULT '',
  created_by          TEXT NOT NULL,
  created_at          INTEGER NOT NULL,
  started_at          INTEGER,
  ended_at            INTEGER,
  cancel_requested_at INTEGER,
  lease_until         INTEGER,
  last_progress_at    INTEGER,
  last_seq            INTEGER NOT NULL DEFAULT 0, -- of build_event
  refused_events      INTEGER NOT NULL DEFAULT 0,
  event_cursor        INTEGER NOT NULL DEFAULT 0, -- id of the worker's last event
  artifact_cursor     INTEGER NOT NULL DEFAULT 0,
  final_steps         INTEGER, -- of the final marker; NULL until it is stored
  final_events        INTEGER,
  final_artifacts     INTEGER,
  acknowledged_at     INTEGER,
  deleted_at          INTEGER
);
CREATE INDEX build_active ON build (build_id) WHERE acknowledged_at IS NULL AND deleted_at IS NULL;
CREATE INDEX build_project ON build (project, build_id);
CREATE INDEX build_commit ON build ("commit", build_id);

CREATE TABLE build_event (
  build_id  INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  source    TEXT NOT NULL,
  event_id  TEXT NOT NULL,
  step_id   INTEGER NOT NULL, -- 0: the build
  status    TEXT NOT NULL,
  attempt   INTEGER NOT NULL,
  reason    TEXT NOT NULL,
  message   TEXT NOT NULL,
  exit_code INTEGER,
  applied   INTEGER NOT NULL CHECK (applied IN (0, 1)), -- 0: the change was not allowed
  at        INTEGER NOT NULL, -- by the clock of the source
  stored_at INTEGER NOT NULL,
  PRIMARY KEY (build_id, seq),
  UNIQUE (build_id, source, event_id)
) WITHOUT ROWID;

CREATE TABLE build_step (
  build_id        INTEGER NOT NULL,
  step_id         INTEGER NOT NULL, -- 0: the log of the build itself
  stage           TEXT NOT NULL,
  name            TEXT NOT NULL,
  type            TEXT NOT NULL,
  needs           TEXT NOT NULL, -- JSON, ids of steps
  status          TEXT NOT NULL,
  attempt         INTEGER NOT NULL,
  reason          TEXT NOT NULL,
  message         TEXT NOT NULL,
  exit_code       INTEGER,
  started_at      INTEGER,
  ended_at        INTEGER,
  log_lines       INTEGER NOT NULL,
  log_bytes       INTEGER NOT NULL,
  hash_state      BLOB, -- of SHA-256 over log_bytes; NULL: nothing was hashed
  trailer_entries INTEGER, -- NULL until the step has ended
  trailer_bytes   INTEGER,
  trailer_sha256  BLOB,
  PRIMARY KEY (build_id, step_id)
);

CREATE TABLE log_line (
  build_id    INTEGER NOT NULL,
  step_id     INTEGER NOT NULL,
  log_id      INTEGER NOT NULL, -- of the first entry
  lines       INTEGER NOT NULL,
  byte_offset INTEGER NOT NULL, -- of the first byte in the log
  bytes       INTEGER NOT NULL, -- of data, once decompressed
  first_at    INTEGER, -- NULL: the entry has no time
  last_at     INTEGER,
  data        BLOB NOT NULL, -- zstd
  PRIMARY KEY (build_id, step_id, log_id),
  UNIQUE (build_id, step_id, byte_offset)
);

CREATE TABLE build_artifact (
  build_id    INTEGER NOT NULL,
  artifact_id INTEGER NOT NULL,
  step_id     INTEGER NOT NULL,
  name        TEXT NOT NULL,
  size        INTEGER NOT NULL,
  sha256      BLOB NOT NULL,
  kind        TEXT NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('Stored', 'Damaged')),
  blob_key    TEXT NOT NULL,
  stored_at   INTEGER NOT NULL,
  PRIMARY KEY (build_id, artifact_id)
);

CREATE TABLE test_report (
  build_id    INTEGER NOT NULL,
  artifact_id INTEGER NOT NULL, -- the file
  step_id     INTEGER NOT NULL,
  name        TEXT NOT NULL,
  format      TEXT NOT NULL,
  report      TEXT NOT NULL, -- JSON: counts, and why the file cannot be read
  PRIMARY KEY (build_id, artifact_id)
);

CREATE TABLE test_result (
  build_id    INTEGER NOT NULL,
  artifact_id INTEGER NOT NULL,
  ordinal     INTEGER NOT NULL, -- in the file, from 1
  suite       TEXT NOT NULL,
  name        TEXT NOT NULL,
  outcome     TEXT NOT NULL,
  duration    INTEGER NOT NULL, -- nanoseconds
  message     TEXT NOT NULL,
  file        TEXT NOT NULL,
  line        INTEGER NOT NULL,
  PRIMARY KEY (build_id, artifact_id, ordinal)
) WITHOUT ROWID;
