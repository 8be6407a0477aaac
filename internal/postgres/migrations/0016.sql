-- The entries of ended deployments go to the blob store, and no others may go.

ALTER TABLE pipeline_head ADD COLUMN archived bigint NOT NULL DEFAULT 0; -- position of the last row deployments-archived; 0: none
ALTER TABLE deployment
	ADD COLUMN archive       text   NOT NULL DEFAULT '', -- blob key of its entries; empty: they are here
	ADD COLUMN archive_first bigint NOT NULL DEFAULT 0,  -- positions of its first and last entry there
	ADD COLUMN archive_last  bigint NOT NULL DEFAULT 0,
	ADD CONSTRAINT deployment_archive CHECK (archive = '' OR status <> 'active') NOT VALID;

-- One statement deletes all entries of a deployment, so they are checked together.
CREATE FUNCTION refuse_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM (SELECT pipeline_id, deployment, max(seq) AS seq FROM gone GROUP BY pipeline_id, deployment) AS g
			WHERE NOT EXISTS (SELECT FROM pipeline_head h JOIN deployment d ON d.pipeline_id = h.id AND d.number = g.deployment
				WHERE h.id = g.pipeline_id AND g.seq <= h.archived AND d.archive <> '')) THEN
		RAISE EXCEPTION 'an entry is never deleted before its deployment is archived' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
DROP TRIGGER entry_immutable ON entry;
CREATE TRIGGER entry_immutable BEFORE UPDATE ON entry FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entry_archived AFTER DELETE ON entry REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_deletion();
