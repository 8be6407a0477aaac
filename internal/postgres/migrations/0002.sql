-- Actions that ask for others, and what is too big for a row.

ALTER TABLE action
	ADD COLUMN trace          text NOT NULL DEFAULT '', -- W3C traceparent of who enqueued it
	ADD COLUMN parameters_ref text NOT NULL DEFAULT '', -- blob key of parameters that are not in the row
	ADD COLUMN subscriber     json;                     -- whom its progress and end are told
CREATE INDEX action_name ON action (kind, name, id);
CREATE INDEX action_enqueued ON action USING brin (enqueued_at); -- with event_at: what happens to all actions, as it happens

ALTER TABLE thread ADD COLUMN progress smallint NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100); -- per cent

ALTER TABLE thread_done ADD COLUMN output_ref text NOT NULL DEFAULT ''; -- blob key of an output that is not in the row

-- What lanes may do, over all instances; a lane that is well and has no limits has no row.

CREATE TABLE limiter (
	key         text COLLATE "C" PRIMARY KEY,
	configured  float8 NOT NULL DEFAULT 0, -- tokens a second; 0: none
	burst       int    NOT NULL DEFAULT 0,
	slots       int    NOT NULL DEFAULT 0, -- attempts at a time; 0: any number
	slowed      float8 NOT NULL DEFAULT 0, -- tokens a second while slowed; 0: it is not
	slowed_at   timestamptz,
	tokens      float8 NOT NULL DEFAULT 0,
	refilled_at timestamptz,
	window_at   timestamptz,
	ok          int    NOT NULL DEFAULT 0,
	bad         int    NOT NULL DEFAULT 0,
	peak        float8 NOT NULL DEFAULT 0,
	paused_by   text   NOT NULL DEFAULT '',
	pause_until timestamptz,
	disabled_at timestamptz,
	reason      text   NOT NULL DEFAULT '',
	span_us     bigint NOT NULL DEFAULT 10000000 -- over which results are judged
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX limiter_troubled ON limiter (key) WHERE slowed > 0 OR paused_by <> '' OR disabled_at IS NOT NULL;

CREATE TABLE limiter_hold (
	key         text COLLATE "C" NOT NULL REFERENCES limiter ON DELETE CASCADE,
	instance_id uuid NOT NULL REFERENCES instance ON DELETE CASCADE, -- a dead instance's slots go back with it
	slots       int  NOT NULL,
	wanted      int  NOT NULL,
	PRIMARY KEY (key, instance_id)
) WITH (fillfactor = 50);
CREATE INDEX limiter_hold_instance ON limiter_hold (instance_id);

-- Jobs, and which of them answers for equal requests.

ALTER TABLE action
	ADD COLUMN version   int NOT NULL DEFAULT 0, -- of a job: its process's
	ADD COLUMN cache_key uuid;                   -- of a job: its payload's

CREATE TABLE cache_entry (
	key           uuid        PRIMARY KEY,
	scope         text        NOT NULL CHECK (scope IN ('payload', 'idempotency')),
	name          text        NOT NULL, -- of the process; of who sent an Idempotency-Key
	version       int         NOT NULL, -- of the process; of an Idempotency-Key 1 when its request made the action, else 0
	body_hash     bytea,
	action_id     uuid        NOT NULL,
	invalid_after timestamptz,
	created_at    timestamptz NOT NULL
);
CREATE INDEX cache_entry_name ON cache_entry (scope, name, key);
CREATE INDEX cache_entry_action ON cache_entry (action_id);

-- Ended jobs that a client deleted; the actions themselves are untouched.
CREATE TABLE dismissal (
	id           uuid        PRIMARY KEY,
	dismissed_at timestamptz NOT NULL,
	dismissed_by text        NOT NULL
);

-- What every claim and every end writes, made small. Claims that ran past their end are found by their owner; a claim
-- whose lease ends before its deadline does not pass that; of the ends most are successful, and nobody looks for those
-- by that. Each claim writes a second entry into the primary key, for which its pages keep room.

DROP INDEX thread_lease;
DROP INDEX thread_owner;
CREATE INDEX thread_owner ON thread (claimed_by, lease) WHERE claimed_by IS NOT NULL;
CREATE INDEX thread_cancel ON thread (claimed_by) WHERE claimed_by IS NOT NULL AND cancel_at IS NOT NULL;
DROP INDEX thread_deadline;
CREATE INDEX thread_deadline ON thread (deadline)
	WHERE deadline IS NOT NULL AND cancel_at IS NULL AND (claimed_by IS NULL OR lease IS NULL OR deadline < lease);
ALTER INDEX thread_pkey SET (fillfactor = 50);
DROP INDEX thread_done_status;
CREATE INDEX thread_done_status ON thread_done (status, id) WHERE status <> 5;
ALTER TABLE thread_done ALTER COLUMN run_at DROP NOT NULL, ALTER COLUMN draining DROP NOT NULL; -- written no more

-- What processes tell of themselves, and what was taken back from dead ones.

ALTER TABLE instance
	ADD COLUMN draining boolean NOT NULL DEFAULT false, -- it takes on nothing new
	ADD COLUMN report   json    NOT NULL DEFAULT '{}';  -- what no row says, for people
CREATE INDEX event_rescue ON event (at) WHERE source = 'rescue';

-- Retention: whole partitions are dropped. One process at a time does it, and is given up for dead at the time here.

ALTER TABLE meta ADD COLUMN retaining_until timestamptz NOT NULL DEFAULT '-infinity';
