-- Kubernetes pipelines: the runs that promote revisions, and what people and hosts said about them. A pipeline that is deleted and
-- created again is another row: its object has another UID.

CREATE TABLE promotion_head (
	id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	name       text        COLLATE "C" NOT NULL, -- namespace:name
	uid        text        COLLATE "C" NOT NULL, -- of the Kubernetes object
	seq        bigint      NOT NULL DEFAULT 0, -- grows with every change of the pipeline's rows
	newest     bigint      NOT NULL DEFAULT 0, -- number of the newest run of this name
	created_at timestamptz NOT NULL,
	closed_at  timestamptz -- the object is gone
);
CREATE UNIQUE INDEX promotion_head_live ON promotion_head (name) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX promotion_head_uid ON promotion_head (uid, name);
CREATE INDEX promotion_head_name ON promotion_head (name, id);

CREATE TABLE promotion_run (
	pipeline_id  bigint      NOT NULL REFERENCES promotion_head (id),
	number       bigint      NOT NULL,
	id           uuid        NOT NULL UNIQUE,
	revision     text        NOT NULL,
	was          text        NOT NULL,
	cause        text        NOT NULL,
	environment  text        NOT NULL, -- of a run of one environment
	repeats      bigint      NOT NULL,
	created_by   text        NOT NULL,
	environments text        NOT NULL, -- JSON
	started_at   timestamptz NOT NULL,
	ended_at     timestamptz,
	ended        text        NOT NULL DEFAULT '', -- empty: it runs
	archive      text        NOT NULL DEFAULT '', -- key of the blob that has its entries; empty: they are here
	PRIMARY KEY (pipeline_id, number)
);
CREATE INDEX promotion_run_open ON promotion_run (pipeline_id, number) WHERE ended = '';

CREATE TABLE promotion_entry (
	pipeline_id bigint      NOT NULL REFERENCES promotion_head (id),
	seq         bigint      NOT NULL,
	run         bigint      NOT NULL, -- 0: of the pipeline
	environment text        COLLATE "C" NOT NULL,
	target      text        COLLATE "C" NOT NULL, -- cluster/namespace; empty: of the environment or the pipeline
	event       text        COLLATE "C" NOT NULL,
	class       smallint    NOT NULL CHECK (class IN (0, 1)), -- fact, note
	created_by  text        NOT NULL,
	detail      text        NOT NULL,
	action_id   uuid,
	created_at  timestamptz NOT NULL,
	PRIMARY KEY (pipeline_id, seq)
);
CREATE UNIQUE INDEX promotion_entry_once ON promotion_entry (pipeline_id, run, environment, target, event) WHERE class = 0;
CREATE INDEX promotion_entry_run ON promotion_entry (pipeline_id, run, seq);
CREATE INDEX promotion_entry_finish ON promotion_entry (pipeline_id, environment, run) WHERE class = 0 AND event = 'stage-finished-successfully';
CREATE TRIGGER promotion_entry_immutable BEFORE UPDATE ON promotion_entry FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER promotion_entry_kept BEFORE TRUNCATE ON promotion_entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION refuse_unarchived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT 1 FROM promotion_run r WHERE r.pipeline_id = OLD.pipeline_id AND r.number = OLD.run AND r.archive <> '') THEN
		RAISE EXCEPTION 'an entry is deleted only once its run is archived' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN OLD;
END $$;
CREATE TRIGGER promotion_entry_delete BEFORE DELETE ON promotion_entry FOR EACH ROW EXECUTE FUNCTION refuse_unarchived();

CREATE TABLE promotion_sighting (
	pipeline_id bigint      NOT NULL REFERENCES promotion_head (id),
	seq         bigint      NOT NULL,
	revision    text        NOT NULL,
	seen_at     timestamptz NOT NULL,
	PRIMARY KEY (pipeline_id, seq)
);

CREATE TABLE promotion_phase (
	pipeline_id bigint      NOT NULL REFERENCES promotion_head (id),
	run         bigint      NOT NULL,
	environment text        COLLATE "C" NOT NULL,
	phase       text        NOT NULL,
	since       timestamptz NOT NULL,
	PRIMARY KEY (pipeline_id, run, environment)
);

CREATE TABLE promotion_intent (
	pipeline_id bigint NOT NULL REFERENCES promotion_head (id),
	seq         bigint NOT NULL,
	run         bigint NOT NULL, -- 0: not of one run
	document    text   NOT NULL, -- JSON
	PRIMARY KEY (pipeline_id, seq)
);
CREATE INDEX promotion_intent_run ON promotion_intent (pipeline_id, run, seq);

-- The newest action of each side effect of a run.
CREATE TABLE promotion_attempt (
	pipeline_id bigint NOT NULL REFERENCES promotion_head (id),
	run         bigint NOT NULL,
	environment text   COLLATE "C" NOT NULL,
	op          text   COLLATE "C" NOT NULL,
	gate        text   COLLATE "C" NOT NULL,
	unique_key  text   NOT NULL, -- of the action
	document    text   NOT NULL, -- JSON
	PRIMARY KEY (pipeline_id, run, environment, op, gate)
);

-- The newest pull request for each environment, as it was last seen.
CREATE TABLE promotion_proposal (
	pipeline_id bigint NOT NULL REFERENCES promotion_head (id),
	environment text   COLLATE "C" NOT NULL,
	document    text   NOT NULL, -- JSON
	PRIMARY KEY (pipeline_id, environment)
);

-- Signed approvals that were used, for as long as their signatures are valid.
CREATE TABLE promotion_nonce (
	key     text        COLLATE "C" NOT NULL,
	nonce   text        COLLATE "C" NOT NULL,
	used_at timestamptz NOT NULL,
	PRIMARY KEY (key, nonce)
);
CREATE INDEX promotion_nonce_used ON promotion_nonce (used_at);

CREATE TABLE promotion_freeze (
	pipeline text COLLATE "C" PRIMARY KEY, -- its name; empty: all pipelines
	document text NOT NULL -- JSON
);
