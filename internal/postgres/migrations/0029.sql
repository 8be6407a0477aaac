-- Received events are deleted after a week; the live actions of a trigger are counted by the beginnings of their keys.

CREATE INDEX CONCURRENTLY inbox_received ON inbox (received_at);
CREATE INDEX CONCURRENTLY thread_event ON thread (unique_key COLLATE "C") WHERE unique_key LIKE 'event/%';
