-- CloudEvents that triggers have received, so that a redelivered one gets the answer of its first delivery.

CREATE TABLE inbox (
  key         BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 16), -- half of the SHA-256 of trigger, source and id
  action_id   BLOB    NOT NULL,                                      -- the action that answers
  received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
