-- Uploads that no revision refers to are deleted.

CREATE INDEX revision_snapshot ON revision (snapshot);
CREATE INDEX revision_artifact_blob ON revision_artifact (blob);
