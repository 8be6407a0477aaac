-- The application_name of all connections of the instance's process, by which others end them once it is gone.

ALTER TABLE instance ADD COLUMN application text NOT NULL DEFAULT '';
