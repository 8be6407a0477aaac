-- Service instances of the broker, each with its newest operation, and their bindings. Documents are the broker's, and kept byte
-- by byte.

CREATE TABLE service_instance (
	id        text        COLLATE "C" PRIMARY KEY, -- chosen by the platform
	owner     text        NOT NULL,                -- user of the broker
	operation uuid        NOT NULL,                -- action of the newest operation
	verb      text        NOT NULL CHECK (verb IN ('provision', 'update', 'deprovision')),
	status    smallint    CHECK (status BETWEEN 5 AND 10), -- how the operation ended; NULL while it is live
	asked     text        NOT NULL,                -- attributes of the last provision or update
	applied   text,                                -- attributes of the last successful one; NULL: none
	gone_at   timestamptz
);
CREATE INDEX service_instance_gone ON service_instance (gone_at) WHERE gone_at IS NOT NULL;

CREATE TABLE service_binding (
	instance text COLLATE "C" NOT NULL REFERENCES service_instance (id) ON DELETE CASCADE,
	id       text COLLATE "C" NOT NULL, -- chosen by the platform
	document text NOT NULL,             -- its parameters
	PRIMARY KEY (instance, id)
);
