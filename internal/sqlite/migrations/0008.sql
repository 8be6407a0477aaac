-- Browsers that are logged in.

CREATE TABLE session (
  hash       BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  started_by TEXT    NOT NULL,
  token      BLOB,             -- hash of the stored token that it was opened with; NULL: the home's
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
