-- Inputs of builds that are passwords, sealed until the build's worker has started.

CREATE TABLE build_password (
  build_id INTEGER PRIMARY KEY,
  names    TEXT NOT NULL, -- JSON
  sealed   BLOB           -- their values; NULL: forgotten
);
