-- Requests of other systems for another look: hooks of Git hosts, and hooks about pipelines.

CREATE TABLE promotion_call (
	host      text        COLLATE "C" NOT NULL, -- kind of the Git host; empty: the name is a pipeline's
	name      text        COLLATE "C" NOT NULL, -- owner/name of the repository, or namespace:name of the pipeline
	number    bigint      NOT NULL,             -- of the pull request; 0: all of the repository
	called_at timestamptz NOT NULL,
	PRIMARY KEY (host, name, number)
);
CREATE INDEX promotion_call_called ON promotion_call (called_at);
