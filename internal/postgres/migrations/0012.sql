-- Uploads that no revision refers to are deleted.

CREATE INDEX CONCURRENTLY revision_snapshot ON revision (snapshot COLLATE "C");
CREATE INDEX CONCURRENTLY revision_artifact_blob ON revision_artifact (blob COLLATE "C");
