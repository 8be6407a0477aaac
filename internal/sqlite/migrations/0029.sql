-- Received events are deleted after a week. (On PostgreSQL also: the live actions of a trigger are counted by the beginnings of their keys.)

CREATE INDEX inbox_received ON inbox (received_at);
