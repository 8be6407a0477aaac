-- The history of a target walks archived deployments by their last entries.

CREATE INDEX CONCURRENTLY deployment_archived ON deployment (pipeline_id, archive_last) WHERE archive <> '';
