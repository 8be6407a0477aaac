-- The ledger on PostgreSQL. Facts, events and actions are only ever added; triggers refuse anything else.

CREATE TABLE meta (
	ledger_id uuid NOT NULL,
	schema    int  NOT NULL
);
INSERT INTO meta VALUES (gen_random_uuid(), 0);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;

-- The time that a UUID version 7 carries, in whole milliseconds.
CREATE FUNCTION uuid_v7_time(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 1000.0)
$$;

-- ---- structure ----

CREATE TABLE pipeline_head (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name     text   COLLATE "C" NOT NULL UNIQUE,
	version  int    NOT NULL DEFAULT 0,
	seq      bigint NOT NULL DEFAULT 0,
	newest   bigint NOT NULL DEFAULT 0,
	deployed bigint NOT NULL DEFAULT 0,
	owner    uuid,
	epoch    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE pipeline (
	pipeline_id bigint      NOT NULL REFERENCES pipeline_head (id),
	version     int         NOT NULL,
	definition  json        NOT NULL,
	source      text        NOT NULL,
	created_by  text        NOT NULL,
	created_at  timestamptz NOT NULL,
	PRIMARY KEY (pipeline_id, version)
);
CREATE TRIGGER pipeline_immutable BEFORE UPDATE OR DELETE ON pipeline FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE revision (
	pipeline_id  bigint      NOT NULL REFERENCES pipeline_head (id),
	seq          bigint      NOT NULL,
	label        text        COLLATE "C" NOT NULL,
	commit       text        NOT NULL,
	subject      text        NOT NULL,
	committed_at timestamptz,
	snapshot     text        NOT NULL,
	state        text        NOT NULL CHECK (state IN ('open', 'sealed', 'rejected')),
	created_by   text        NOT NULL,
	created_at   timestamptz NOT NULL,
	PRIMARY KEY (pipeline_id, seq),
	UNIQUE (pipeline_id, label)
);

CREATE TABLE revision_artifact (
	pipeline_id bigint NOT NULL,
	revision    bigint NOT NULL,
	label       text   NOT NULL,
	name        text   NOT NULL,
	digest      text   NOT NULL,
	size        bigint NOT NULL,
	blob        text   NOT NULL,
	build       text   NOT NULL,
	PRIMARY KEY (pipeline_id, revision, label),
	FOREIGN KEY (pipeline_id, revision) REFERENCES revision (pipeline_id, seq)
);
CREATE TRIGGER revision_artifact_immutable BEFORE UPDATE OR DELETE ON revision_artifact
	FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE deployment (
	pipeline_id bigint      NOT NULL REFERENCES pipeline_head (id),
	number      bigint      NOT NULL,
	id          uuid        NOT NULL UNIQUE,
	kind        text        NOT NULL,
	revision    bigint      NOT NULL,
	version     int         NOT NULL,
	status      text        NOT NULL,
	created_by  text        NOT NULL,
	created_at  timestamptz NOT NULL,
	ended_at    timestamptz,
	PRIMARY KEY (pipeline_id, number),
	FOREIGN KEY (pipeline_id, revision) REFERENCES revision (pipeline_id, seq)
);
CREATE INDEX deployment_active ON deployment (pipeline_id) WHERE status = 'active';
CREATE INDEX deployment_revision ON deployment (pipeline_id, revision, number);

-- ---- the log ----

CREATE TABLE target (
	id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	pipeline_id bigint NOT NULL REFERENCES pipeline_head (id),
	path        text   COLLATE "C" NOT NULL,
	current     bigint NOT NULL DEFAULT 0, -- the highest deployment that finished here
	revision    bigint NOT NULL DEFAULT 0, -- of current
	highest     bigint NOT NULL DEFAULT 0, -- the largest revision that finished here
	finished_at timestamptz,               -- of current
	failed      bigint NOT NULL DEFAULT 0, -- the deployment that failed here last
	failed_at   timestamptz,
	UNIQUE (pipeline_id, path)
) WITH (fillfactor = 70);

CREATE TABLE entry ( -- no foreign keys: every append holds the pipeline's head, and a check for each row would double its cost
	pipeline_id        bigint      NOT NULL,
	seq                bigint      NOT NULL,
	deployment         bigint      NOT NULL, -- its number; 0: the pipeline itself
	target_id          bigint      NOT NULL,
	event_name         text        COLLATE "C" NOT NULL,
	occurrence         int         NOT NULL,
	class              smallint    NOT NULL CHECK (class BETWEEN 1 AND 3),
	revision           bigint      NOT NULL,
	definition_version int         NOT NULL,
	created_at         timestamptz NOT NULL,
	detail             json,
	PRIMARY KEY (pipeline_id, seq),
	CONSTRAINT entry_once UNIQUE (pipeline_id, deployment, target_id, event_name, occurrence),
	CHECK (class <> 1 OR occurrence = 0)
);
CREATE INDEX entry_mark ON entry (target_id, event_name, seq);
CREATE TRIGGER entry_immutable BEFORE UPDATE OR DELETE ON entry FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entry_kept BEFORE TRUNCATE ON entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The five columns of the deployment log, as text.
CREATE VIEW deployment_log AS
SELECT d.id::text AS id, t.path AS target_id, r.label AS revision, e.event_name, e.created_at
FROM entry e
JOIN target t ON t.id = e.target_id
LEFT JOIN deployment d ON d.pipeline_id = e.pipeline_id AND d.number = e.deployment
LEFT JOIN revision r ON r.pipeline_id = e.pipeline_id AND r.seq = e.revision
ORDER BY e.pipeline_id, e.seq;

CREATE TABLE stage_run (
	pipeline_id bigint NOT NULL REFERENCES pipeline_head (id),
	deployment  bigint NOT NULL,
	stage       text   NOT NULL,
	revision    bigint NOT NULL,
	started_at  timestamptz NOT NULL,
	ended_at    timestamptz,
	outcome     text   NOT NULL,
	PRIMARY KEY (pipeline_id, deployment, stage)
);

CREATE TABLE resource (
	address     text   COLLATE "C" NOT NULL,
	service     text   COLLATE "C" NOT NULL,
	pipeline_id bigint NOT NULL REFERENCES pipeline_head (id),
	target      text   NOT NULL,
	deployment  bigint NOT NULL,
	revision    bigint NOT NULL,
	finished    bigint NOT NULL,
	at          timestamptz NOT NULL,
	PRIMARY KEY (address, service)
);
CREATE INDEX resource_pipeline ON resource (pipeline_id);

CREATE TABLE step_introduction (
	pipeline_id    bigint  NOT NULL REFERENCES pipeline_head (id),
	stage          text    NOT NULL,
	event_name     text    NOT NULL,
	revision_after bigint  NOT NULL,
	version        int     NOT NULL,
	strict         boolean NOT NULL,
	PRIMARY KEY (pipeline_id, stage, event_name, version)
);

-- ---- actions ----

CREATE TABLE action (
	id                 uuid        NOT NULL,
	created_at         timestamptz NOT NULL CHECK (created_at = uuid_v7_time(id)),
	enqueued_at        timestamptz NOT NULL DEFAULT now(),
	kind               text        NOT NULL,
	name               text        NOT NULL,
	handler            text        NOT NULL,
	lane               text        NOT NULL,
	priority           smallint    NOT NULL CHECK (priority BETWEEN 0 AND 1000),
	unique_key         text,
	parent_id          uuid,
	retry_of           uuid,
	parameters         json,
	policy             json        NOT NULL,
	delivery           text        NOT NULL,
	run_at             timestamptz,
	created_by         text        NOT NULL,
	pipeline           text COLLATE "C",
	deployment         bigint,
	target             text,
	event_name         text,
	revision           bigint,
	definition_version int,
	PRIMARY KEY (id, created_at),
	CHECK (num_nulls(pipeline, deployment, target, event_name, revision, definition_version) IN (0, 6))
) PARTITION BY RANGE (created_at);
CREATE INDEX action_handler ON action (handler, id);
CREATE INDEX action_parent ON action (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX action_deployment ON action (pipeline, deployment, id) WHERE pipeline IS NOT NULL;
CREATE TRIGGER action_immutable BEFORE UPDATE OR DELETE ON action FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- created_at is the action's, so that an action and its history are dropped together.
CREATE TABLE event (
	action_id  uuid        NOT NULL,
	created_at timestamptz NOT NULL,
	seq        int         NOT NULL,
	status     smallint    NOT NULL CHECK (status BETWEEN 2 AND 10),
	attempt    int         NOT NULL,
	spent      smallint    NOT NULL,
	at         timestamptz NOT NULL,
	source     text        NOT NULL,
	until      timestamptz,
	code       text,
	error      text,
	ref        text,
	PRIMARY KEY (action_id, seq, created_at),
	CHECK (status <> 4 OR until IS NOT NULL)
) PARTITION BY RANGE (created_at);
CREATE INDEX event_at ON event USING brin (at);
CREATE TRIGGER event_immutable BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE thread (
	id            uuid        PRIMARY KEY,
	created_at    timestamptz NOT NULL,
	lane          text        COLLATE "C" NOT NULL,
	status        smallint    NOT NULL CHECK (status BETWEEN 1 AND 4),
	ready         boolean     NOT NULL,
	rank          timestamptz NOT NULL,
	run_at        timestamptz NOT NULL,
	seq           int         NOT NULL,
	attempt       int         NOT NULL,
	spent         smallint    NOT NULL,
	lost          smallint    NOT NULL,
	throttled     smallint    NOT NULL,
	attempt_limit interval,
	claimed_by    uuid,
	lease         timestamptz,
	started_at    timestamptz,
	cancel_at     timestamptz,
	draining      boolean     NOT NULL,
	deadline      timestamptz,
	unique_key    text,
	CHECK (NOT ready OR (claimed_by IS NULL AND status IN (1, 4)))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX thread_claim ON thread (lane, rank, id) WHERE ready;
CREATE INDEX thread_due ON thread (run_at) WHERE NOT ready AND claimed_by IS NULL AND status IN (1, 4);
CREATE INDEX thread_owner ON thread (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX thread_lease ON thread (lease) WHERE lease IS NOT NULL;
CREATE UNIQUE INDEX thread_unique ON thread (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX thread_stop ON thread (run_at) WHERE cancel_at IS NOT NULL AND claimed_by IS NULL AND status IN (2, 3);
CREATE INDEX thread_deadline ON thread (deadline) WHERE deadline IS NOT NULL;

-- What package action decides; this refuses what slips past it. 1 PENDING, 2 QUEUED, 3 RUNNING, 4 BACKOFF.
CREATE FUNCTION refuse_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'action % cannot go from status % (seq %, attempt %) to % (seq %, attempt %)',
		OLD.id, OLD.status, OLD.seq, OLD.attempt, NEW.status, NEW.seq, NEW.attempt
		USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER thread_transition BEFORE UPDATE ON thread FOR EACH ROW
	WHEN (NEW.seq < OLD.seq OR NEW.attempt < OLD.attempt
		OR (NEW.status <> OLD.status AND (NEW.status = 1 OR (OLD.status = 3 AND NEW.status = 2))))
	EXECUTE FUNCTION refuse_transition();

CREATE TABLE thread_done (
	id          uuid        NOT NULL,
	created_at  timestamptz NOT NULL,
	lane        text        NOT NULL,
	status      smallint    NOT NULL CHECK (status BETWEEN 5 AND 10),
	seq         int         NOT NULL,
	attempt     int         NOT NULL,
	spent       smallint    NOT NULL,
	lost        smallint    NOT NULL,
	run_at      timestamptz NOT NULL,
	started_at  timestamptz,
	cancel_at   timestamptz,
	draining    boolean     NOT NULL,
	deadline    timestamptz,
	finished_at timestamptz NOT NULL,
	code        text        NOT NULL,
	error       text        NOT NULL,
	ref         text        NOT NULL,
	output      json,
	PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX thread_done_status ON thread_done (status, id);
CREATE TRIGGER thread_done_immutable BEFORE UPDATE OR DELETE ON thread_done FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- ---- processes and people ----

CREATE TABLE instance (
	id          uuid        PRIMARY KEY,
	name        text        NOT NULL,
	version     text        NOT NULL,
	roles       text[]      NOT NULL,
	handlers    text[]      NOT NULL,
	started_at  timestamptz NOT NULL DEFAULT now(),
	lease_until timestamptz NOT NULL,
	lock_key    bigint      NOT NULL,   -- an advisory lock that the process holds; 0: none
	unguarded   timestamptz             -- when somebody first found that lock free
);

CREATE TABLE token (
	hash       bytea       PRIMARY KEY,
	name       text        NOT NULL,
	scopes     text[]      NOT NULL,
	created_at timestamptz NOT NULL,
	expires_at timestamptz,
	revoked_at timestamptz
);
