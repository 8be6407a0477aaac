-- One set of rules, here and on SQLite. Package action decides; this refuses what slips past it. A rule that is NOT VALID
-- holds for every row that is written from now on, and does not read the rows of before.

ALTER TABLE entry
	ADD CONSTRAINT entry_fact_once CHECK ((class = 1) = (occurrence = 0)) NOT VALID,
	ADD CONSTRAINT entry_change_of_pipeline CHECK ((class = 3) = (deployment = 0)) NOT VALID;
ALTER TABLE deployment ADD CONSTRAINT deployment_status
	CHECK (status IN ('active', 'finished', 'failed', 'superseded', 'canceled')) NOT VALID;
ALTER TABLE event ADD CONSTRAINT event_seq CHECK (seq > 0) NOT VALID;
ALTER TABLE thread ADD CONSTRAINT thread_leased CHECK (lease IS NULL OR claimed_by IS NOT NULL) NOT VALID;

CREATE TRIGGER pipeline_kept BEFORE TRUNCATE ON pipeline FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER revision_artifact_kept BEFORE TRUNCATE ON revision_artifact FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER action_kept BEFORE TRUNCATE ON action FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_kept BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER thread_kept BEFORE TRUNCATE ON thread FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER thread_done_kept BEFORE TRUNCATE ON thread_done FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A claim ends with the status that it gave, and a new claim is a new attempt.
DROP TRIGGER thread_transition ON thread;
CREATE TRIGGER thread_transition BEFORE UPDATE ON thread FOR EACH ROW
	WHEN (NEW.id <> OLD.id OR NEW.seq < OLD.seq OR NEW.attempt < OLD.attempt OR NEW.spent < OLD.spent
		OR (NEW.status <> OLD.status AND (NEW.status = 1 OR (OLD.status = 3 AND NEW.status = 2)))
		OR (NEW.claimed_by IS NULL AND OLD.claimed_by IS NOT NULL AND OLD.status = 3 AND NEW.status = 3)
		OR (NEW.claimed_by <> coalesce(OLD.claimed_by, '00000000-0000-0000-0000-000000000000') AND NEW.attempt = OLD.attempt))
	EXECUTE FUNCTION refuse_transition();

-- A live row is deleted by the statement that writes how its action ended. One row answers for all of a statement: it
-- writes all of those ends or none.
CREATE FUNCTION refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM (SELECT id, created_at FROM gone LIMIT 1) AS g
			WHERE NOT EXISTS (SELECT FROM thread_done d WHERE d.id = g.id AND d.created_at = g.created_at)) THEN
		RAISE EXCEPTION 'a live action is deleted by its end alone' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER thread_end AFTER DELETE ON thread REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_loss();

-- Whether the action was a job; NULL: this was written before the column was there.
ALTER TABLE thread_done ADD COLUMN job boolean;
