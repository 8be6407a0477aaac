-- Builds that reuse steps of an earlier one, and what of a step and of an artifact that needs.

ALTER TABLE build ADD COLUMN resume boolean NOT NULL DEFAULT false; -- steps of rerun_of that completed do not run again
ALTER TABLE build ADD COLUMN bundle text NOT NULL DEFAULT ''; -- blob key of what these have left; empty: it was not gathered yet
ALTER TABLE build_step ADD COLUMN identity text NOT NULL DEFAULT ''; -- digest of its definition and needs; empty: not known
ALTER TABLE build_artifact ADD COLUMN executable boolean NOT NULL DEFAULT false;
