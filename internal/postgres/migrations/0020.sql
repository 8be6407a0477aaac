-- Inputs of builds that are passwords, sealed until the build's worker has started.

CREATE TABLE build_password (
	build_id bigint PRIMARY KEY,
	names    text NOT NULL, -- JSON
	sealed   bytea          -- their values; NULL: forgotten
);
