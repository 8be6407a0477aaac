-- Builds that reuse steps of an earlier one, and what of a step and of an artifact that needs.

ALTER TABLE build ADD COLUMN resume INTEGER NOT NULL DEFAULT 0 CHECK (resume IN (0, 1)); -- 1: steps of rerun_of that completed do not run again
ALTER TABLE build ADD COLUMN bundle TEXT NOT NULL DEFAULT ''; -- blob key of what these have left; empty: it was not gathered yet
ALTER TABLE build_step ADD COLUMN identity TEXT NOT NULL DEFAULT ''; -- digest of its definition and needs; empty: not known
ALTER TABLE build_artifact ADD COLUMN executable INTEGER NOT NULL DEFAULT 0 CHECK (executable IN (0, 1));
