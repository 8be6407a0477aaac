-- On PostgreSQL this version names the home of each local host. Here there is one home.

SELECT 1;
