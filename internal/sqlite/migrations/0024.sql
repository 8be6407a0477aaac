-- Kubernetes pipelines: the runs that promote revisions, and what people and hosts said about them. A pipeline that is deleted and
-- created again is another row: its object has another UID.

CREATE TABLE promotion_head (
  id         INTEGER PRIMARY KEY,
  name       TEXT    NOT NULL,           -- namespace:name
  uid        TEXT    NOT NULL,           -- of the Kubernetes object
  seq        INTEGER NOT NULL DEFAULT 0, -- grows with every change of the pipeline's rows
  newest     INTEGER NOT NULL DEFAULT 0, -- number of the newest run of this name
  created_at INTEGER NOT NULL,
  closed_at  INTEGER                     -- the object is gone
);
CREATE UNIQUE INDEX promotion_head_live ON promotion_head (name) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX promotion_head_uid ON promotion_head (uid, name);
CREATE INDEX promotion_head_name ON promotion_head (name, id);

CREATE TABLE promotion_run (
  pipeline_id  INTEGER NOT NULL REFERENCES promotion_head,
  number       INTEGER NOT NULL,
  id           BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
  revision     TEXT    NOT NULL,
  was          TEXT    NOT NULL,
  cause        TEXT    NOT NULL,
  environment  TEXT    NOT NULL, -- of a run of one environment
  repeats      INTEGER NOT NULL,
  created_by   TEXT    NOT NULL,
  environments TEXT    NOT NULL CHECK (json_valid(environments)),
  started_at   INTEGER NOT NULL,
  ended_at     INTEGER,
  ended        TEXT    NOT NULL DEFAULT '', -- empty: it runs
  archive      TEXT    NOT NULL DEFAULT '', -- key of the blob that has its entries; empty: they are here
  PRIMARY KEY (pipeline_id, number)
);
CREATE INDEX promotion_run_open ON promotion_run (pipeline_id, number) WHERE ended = '';

CREATE TABLE promotion_entry (
  pipeline_id INTEGER NOT NULL REFERENCES promotion_head,
  seq         INTEGER NOT NULL,
  run         INTEGER NOT NULL, -- 0: of the pipeline
  environment TEXT    NOT NULL,
  target      TEXT    NOT NULL, -- cluster/namespace; empty: of the environment or the pipeline
  event       TEXT    NOT NULL,
  class       INTEGER NOT NULL CHECK (class IN (0, 1)), -- fact, note
  created_by  TEXT    NOT NULL,
  detail      TEXT    NOT NULL,
  action_id   BLOB,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (pipeline_id, seq)
);
CREATE UNIQUE INDEX promotion_entry_once ON promotion_entry (pipeline_id, run, environment, target, event) WHERE class = 0;
CREATE INDEX promotion_entry_run ON promotion_entry (pipeline_id, run, seq);
CREATE INDEX promotion_entry_finish ON promotion_entry (pipeline_id, environment, run) WHERE class = 0 AND event = 'stage-finished-successfully';
CREATE TRIGGER promotion_entry_update BEFORE UPDATE ON promotion_entry BEGIN
  SELECT RAISE(ABORT, 'an entry is never changed');
END;
CREATE TRIGGER promotion_entry_delete BEFORE DELETE ON promotion_entry
WHEN NOT EXISTS (SELECT 1 FROM promotion_run r WHERE r.pipeline_id = OLD.pipeline_id AND r.number = OLD.run AND r.archive <> '')
BEGIN
  SELECT RAISE(ABORT, 'an entry is deleted only once its run is archived');
END;

CREATE TABLE promotion_sighting (
  pipeline_id INTEGER NOT NULL REFERENCES promotion_head,
  seq         INTEGER NOT NULL,
  revision    TEXT    NOT NULL,
  seen_at     INTEGER NOT NULL,
  PRIMARY KEY (pipeline_id, seq)
);

CREATE TABLE promotion_phase (
  pipeline_id INTEGER NOT NULL REFERENCES promotion_head,
  run         INTEGER NOT NULL,
  environment TEXT    NOT NULL,
  phase       TEXT    NOT NULL,
  since       INTEGER NOT NULL,
  PRIMARY KEY (pipeline_id, run, environment)
);

CREATE TABLE promotion_intent (
  pipeline_id INTEGER NOT NULL REFERENCES promotion_head,
  seq         INTEGER NOT NULL,
  run         INTEGER NOT NULL, -- 0: not of one run
  document    TEXT    NOT NULL CHECK (json_valid(document)),
  PRIMARY KEY (pipeline_id, seq)
);
CREATE INDEX promotion_intent_run ON promotion_intent (pipeline_id, run, seq);

-- The newest action of each side effect of a run.
CREATE TABLE promotion_attempt (
  pipeline_id INTEGER NOT NULL REFERENCES promotion_head,
  run         INTEGER NOT NULL,
  environment TEXT    NOT NULL,
  op          TEXT    NOT NULL,
  gate        TEXT    NOT NULL,
  unique_key  TEXT    NOT NULL, -- of the action
  document    TEXT    NOT NULL CHECK (json_valid(document)),
  PRIMARY KEY (pipeline_id, run, environment, op, gate)
);

-- The newest pull request for each environment, as it was last seen.
CREATE TABLE promotion_proposal (
  pipeline_id INTEGER NOT NULL REFERENCES promotion_head,
  environment TEXT    NOT NULL,
  document    TEXT    NOT NULL CHECK (json_valid(document)),
  PRIMARY KEY (pipeline_id, environment)
);

-- Signed approvals that were used, for as long as their signatures are valid.
CREATE TABLE promotion_nonce (
  key     TEXT    NOT NULL,
  nonce   TEXT    NOT NULL,
  used_at INTEGER NOT NULL,
  PRIMARY KEY (key, nonce)
);
CREATE INDEX promotion_nonce_used ON promotion_nonce (used_at);

CREATE TABLE promotion_freeze (
  pipeline TEXT PRIMARY KEY NOT NULL, -- its name; empty: all pipelines
  document TEXT NOT NULL CHECK (json_valid(document))
);
