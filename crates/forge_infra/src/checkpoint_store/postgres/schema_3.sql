-- As the SQLite store's, of which the comments are.
CREATE TABLE forge_action (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL,
    origin BIGINT,
    at BIGINT NOT NULL,
    begun TEXT NOT NULL,
    ended TEXT
);
CREATE INDEX forge_action_run ON forge_action (run);
CREATE UNIQUE INDEX forge_action_origin ON forge_action (run, origin) WHERE origin IS NOT NULL;
