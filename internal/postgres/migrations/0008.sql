-- Browsers that are logged in.

CREATE TABLE session (
	hash       bytea       PRIMARY KEY,
	started_by text        NOT NULL,
	token      bytea,                -- hash of the stored token that it was opened with; NULL: the home's
	expires_at timestamptz NOT NULL
);
