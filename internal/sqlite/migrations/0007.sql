-- On PostgreSQL this version names the connections of each instance. Here an instance has none that outlive it.

SELECT 1;
