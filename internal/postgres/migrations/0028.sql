-- CloudEvents that triggers have received, so that a redelivered one gets the answer of its first delivery.

CREATE TABLE inbox (
	key         uuid        PRIMARY KEY, -- half of the SHA-256 of trigger, source and id
	action_id   uuid        NOT NULL,    -- the action that answers
	received_at timestamptz NOT NULL
);
