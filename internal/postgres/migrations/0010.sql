-- How wide the chain of a job has become: the product, over the chain, of how many jobs started together; 0 means 1.

ALTER TABLE action ADD COLUMN width int NOT NULL DEFAULT 0;
