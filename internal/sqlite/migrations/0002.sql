-- Actions that ask for others, and what is too big for a row.

ALTER TABLE action ADD COLUMN trace TEXT NOT NULL DEFAULT '';          -- W3C traceparent of who enqueued it
ALTER TABLE action ADD COLUMN parameters_ref TEXT NOT NULL DEFAULT ''; -- blob key of parameters that are not in the row
ALTER TABLE action ADD COLUMN subscriber TEXT CHECK (subscriber IS NULL OR json_valid(subscriber)); -- whom its progress and end are told
CREATE INDEX action_name ON action (kind, name, id);

ALTER TABLE thread ADD COLUMN progress INTEGER NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100); -- per cent

ALTER TABLE thread_done ADD COLUMN output_ref TEXT NOT NULL DEFAULT ''; -- blob key of an output that is not in the row

-- What lanes may do, over all instances; a lane that is well and has no limits has no row.

CREATE TABLE limiter (
  key         TEXT    PRIMARY KEY,
  configured  REAL    NOT NULL DEFAULT 0,
  burst       INTEGER NOT NULL DEFAULT 0,
  slots       INTEGER NOT NULL DEFAULT 0,
  slowed      REAL    NOT NULL DEFAULT 0,
  slowed_at   INTEGER,
  tokens      REAL    NOT NULL DEFAULT 0,
  refilled_at INTEGER,
  window_at   INTEGER,
  ok          INTEGER NOT NULL DEFAULT 0,
  bad         INTEGER NOT NULL DEFAULT 0,
  peak        REAL    NOT NULL DEFAULT 0,
  paused_by   TEXT    NOT NULL DEFAULT '',
  pause_until INTEGER,
  disabled_at INTEGER,
  reason      TEXT    NOT NULL DEFAULT '',
  span_us     INTEGER NOT NULL DEFAULT 10000000 -- over which results are judged, in microseconds
) STRICT, WITHOUT ROWID;
CREATE INDEX limiter_troubled ON limiter (key) WHERE slowed > 0 OR paused_by <> '' OR disabled_at IS NOT NULL;

CREATE TABLE limiter_hold (
  key         TEXT    NOT NULL REFERENCES limiter ON DELETE CASCADE,
  instance_id BLOB    NOT NULL,
  slots       INTEGER NOT NULL,
  wanted      INTEGER NOT NULL,
  PRIMARY KEY (key, instance_id)
) STRICT, WITHOUT ROWID;

-- Jobs, and which of them answers for equal requests.

ALTER TABLE action ADD COLUMN version INTEGER NOT NULL DEFAULT 0; -- of a job: its process's
ALTER TABLE action ADD COLUMN cache_key BLOB;                     -- of a job: its payload's

CREATE TABLE cache_entry (
  key           BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 16),
  scope         TEXT    NOT NULL CHECK (scope IN ('payload', 'idempotency')),
  name          TEXT    NOT NULL, -- of the process; of who sent an Idempotency-Key
  version       INTEGER NOT NULL, -- of the process; of an Idempotency-Key 1 when its request made the action, else 0
  body_hash     BLOB,
  action_id     BLOB    NOT NULL,
  invalid_after INTEGER,
  created_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX cache_entry_name ON cache_entry (scope, name, key);
CREATE INDEX cache_entry_action ON cache_entry (action_id);

-- Ended jobs that a client deleted; the actions themselves are untouched.
CREATE TABLE dismissal (
  id           BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  dismissed_at INTEGER NOT NULL,
  dismissed_by TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX event_at ON event (at); -- what happens to all actions, as it happens
CREATE INDEX action_enqueued ON action (enqueued_at);

-- The one process that runs roles, for people: nothing depends on these rows.

CREATE TABLE instance (
  id         BLOB    PRIMARY KEY,
  name       TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  roles      TEXT    NOT NULL CHECK (json_valid(roles)),
  handlers   TEXT    NOT NULL CHECK (json_valid(handlers)),
  started_at INTEGER NOT NULL,
  draining   INTEGER NOT NULL,
  report     TEXT    NOT NULL CHECK (json_valid(report))
) STRICT, WITHOUT ROWID;

-- Of the ends most are successful, and nobody looks for those by that.

DROP INDEX thread_done_status;
CREATE INDEX thread_done_status ON thread_done (status, id) WHERE status <> 5;

CREATE INDEX event_rescue ON event (at) WHERE source = 'rescue';

-- Retention. What has gone out of it may be deleted, and nothing else.

ALTER TABLE meta ADD COLUMN retained BLOB NOT NULL DEFAULT x'00000000000000000000000000000000'; -- ids below may go
DROP TRIGGER action_delete;
CREATE TRIGGER action_delete BEFORE DELETE ON action WHEN OLD.id >= (SELECT retained FROM meta) BEGIN
  SELECT RAISE(ABORT, 'an action is never deleted while it is retained');
END;
DROP TRIGGER event_delete;
CREATE TRIGGER event_delete BEFORE DELETE ON event WHEN OLD.action_id >= (SELECT retained FROM meta) BEGIN
  SELECT RAISE(ABORT, 'an event is never deleted while its action is retained');
END;
DROP TRIGGER thread_done_delete;
CREATE TRIGGER thread_done_delete BEFORE DELETE ON thread_done WHEN OLD.id >= (SELECT retained FROM meta) BEGIN
  SELECT RAISE(ABORT, 'an end is never deleted while its action is retained');
END;
