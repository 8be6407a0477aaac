-- The home that holds a local host. Its steps are for the processes of that home.

CREATE TABLE host_home (
  address  text        PRIMARY KEY,
  home     text        NOT NULL,
  place    text        NOT NULL,
  bound_at timestamptz NOT NULL DEFAULT now()
);
