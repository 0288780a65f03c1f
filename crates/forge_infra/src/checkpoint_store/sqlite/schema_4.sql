-- What runs do outside their conversations, in the order of the beginnings: JSON. An action whose `ended` is missing was begun,
-- and nothing more is known of it. `origin` is the action that it is a copy of, in a run that began with another one's checkpoint.
CREATE TABLE action (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    origin INTEGER,
    at INTEGER NOT NULL,
    begun TEXT NOT NULL,
    ended TEXT
) STRICT;
CREATE INDEX action_run ON action (run);
CREATE UNIQUE INDEX action_origin ON action (run, origin) WHERE origin IS NOT NULL;
