-- The state of each Kubernetes pipeline for people and programs, as the leading promoter has stored it: other processes do not
-- see the clusters.
CREATE TABLE promotion_view (
	pipeline text COLLATE "C" PRIMARY KEY, -- namespace:name
	document text NOT NULL -- JSON
);
