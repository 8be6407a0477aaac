-- Lists of jobs walk the jobs, however many other actions there are.

CREATE INDEX CONCURRENTLY action_job ON action (id) WHERE kind = 'job';
