-- The state of each Kubernetes pipeline for people and programs, as the leading promoter has stored it: other processes do not
-- see the clusters.
CREATE TABLE promotion_view (
  pipeline TEXT PRIMARY KEY NOT NULL, -- namespace:name
  document TEXT NOT NULL CHECK (json_valid(document))
);
