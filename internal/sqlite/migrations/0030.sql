-- Service instances of the broker, each with its newest operation, and their bindings. Documents are the broker's.

CREATE TABLE service_instance (
  id        TEXT    NOT NULL PRIMARY KEY,                    -- chosen by the platform
  owner     TEXT    NOT NULL,                                -- user of the broker
  operation BLOB    NOT NULL CHECK (length(operation) = 16), -- action of the newest operation
  verb      TEXT    NOT NULL CHECK (verb IN ('provision', 'update', 'deprovision')),
  status    INTEGER CHECK (status BETWEEN 5 AND 10),         -- how the operation ended; NULL while it is live
  asked     TEXT    NOT NULL,                                -- attributes of the last provision or update
  applied   TEXT,                                            -- attributes of the last successful one; NULL: none
  gone_at   INTEGER
) STRICT;
CREATE INDEX service_instance_gone ON service_instance (gone_at) WHERE gone_at IS NOT NULL;

CREATE TABLE service_binding (
  instance TEXT NOT NULL REFERENCES service_instance (id) ON DELETE CASCADE,
  id       TEXT NOT NULL, -- chosen by the platform
  document TEXT NOT NULL, -- its parameters
  PRIMARY KEY (instance, id)
) STRICT;
