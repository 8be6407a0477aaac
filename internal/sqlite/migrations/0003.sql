-- One set of rules, here and on PostgreSQL.

CREATE TRIGGER pipeline_update BEFORE UPDATE ON pipeline BEGIN
  SELECT RAISE(ABORT, 'a definition is never changed');
END;
CREATE TRIGGER pipeline_delete BEFORE DELETE ON pipeline BEGIN
  SELECT RAISE(ABORT, 'a definition is never deleted');
END;
CREATE TRIGGER revision_artifact_update BEFORE UPDATE ON revision_artifact BEGIN
  SELECT RAISE(ABORT, 'an artifact is never changed');
END;
CREATE TRIGGER revision_artifact_delete BEFORE DELETE ON revision_artifact BEGIN
  SELECT RAISE(ABORT, 'an artifact is never deleted');
END;

-- A claim ends with the status that it gave, and a new claim is a new attempt.
CREATE TRIGGER thread_claimed BEFORE UPDATE ON thread
WHEN (NEW.claimed_by IS NULL AND OLD.claimed_by IS NOT NULL AND OLD.status = 3 AND NEW.status = 3)
  OR (NEW.claimed_by IS NOT NULL AND NEW.claimed_by IS NOT OLD.claimed_by AND NEW.attempt = OLD.attempt)
BEGIN
  SELECT RAISE(ABORT, 'illegal claim of a thread');
END;

-- A live row is deleted in the transaction that writes how its action ended, before that or after it: a row of this
-- table refers to that end when the transaction commits. The table is empty between transactions.
CREATE TABLE thread_ending (
  id BLOB NOT NULL PRIMARY KEY REFERENCES thread_done DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE TRIGGER thread_delete AFTER DELETE ON thread WHEN NOT EXISTS (SELECT 1 FROM thread_done WHERE id = OLD.id) BEGIN
  INSERT INTO thread_ending (id) VALUES (OLD.id);
END;
CREATE TRIGGER thread_done_insert AFTER INSERT ON thread_done BEGIN
  DELETE FROM thread_ending WHERE id = NEW.id;
END;

-- Whether the action was a job; NULL: this was written before the column was there.
ALTER TABLE thread_done ADD COLUMN job INTEGER CHECK (job IN (0, 1));
