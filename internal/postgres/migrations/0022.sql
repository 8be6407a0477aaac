-- The branch that was checked out when a revision was registered.

ALTER TABLE revision ADD COLUMN branch text NOT NULL DEFAULT ''; -- empty: none, or not known
