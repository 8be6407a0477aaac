-- Ended runs of Kubernetes pipelines whose entries have not left for the blob store.

CREATE INDEX promotion_run_kept ON promotion_run (pipeline_id, number) WHERE archive = '' AND ended <> '';
