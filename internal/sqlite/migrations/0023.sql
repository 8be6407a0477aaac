-- Each entry has the digest of itself and of the one before it, and the pipeline that of the last one. Older entries have none.

ALTER TABLE entry ADD COLUMN digest BLOB;
ALTER TABLE pipeline_head ADD COLUMN digest BLOB;
