-- The entries of ended deployments go to the blob store, and no others may go.

ALTER TABLE pipeline_head ADD COLUMN archived INTEGER NOT NULL DEFAULT 0; -- position of the last row deployments-archived; 0: none
ALTER TABLE deployment ADD COLUMN archive TEXT NOT NULL DEFAULT '' CHECK (archive = '' OR status <> 'active'); -- blob key of its entries; empty: they are here
ALTER TABLE deployment ADD COLUMN archive_first INTEGER NOT NULL DEFAULT 0; -- positions of its first and last entry there
ALTER TABLE deployment ADD COLUMN archive_last INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER entry_delete;
CREATE TRIGGER entry_delete BEFORE DELETE ON entry
WHEN NOT EXISTS (SELECT 1 FROM pipeline_head h CROSS JOIN deployment d ON d.pipeline_id = h.id AND d.number = OLD.deployment
  WHERE h.id = OLD.pipeline_id AND OLD.seq <= h.archived AND d.archive <> '')
BEGIN
  SELECT RAISE(ABORT, 'an entry is never deleted before its deployment is archived');
END;
