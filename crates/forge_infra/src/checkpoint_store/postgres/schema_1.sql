-- As the SQLite store's, of which the comments are; a content's words stand in its own row.
CREATE SEQUENCE forge_fence;

CREATE TABLE forge_run (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    token BIGINT NOT NULL,
    holder TEXT,
    held_since BIGINT NOT NULL
);

CREATE TABLE forge_branch (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    parent BIGINT,
    forked_at BIGINT NOT NULL,
    length BIGINT NOT NULL
);
CREATE INDEX forge_branch_parent ON forge_branch (parent);

CREATE TABLE forge_content (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash BYTEA NOT NULL UNIQUE,
    body BYTEA NOT NULL,
    words TSVECTOR
);
-- Compressed already.
ALTER TABLE forge_content ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX forge_content_words ON forge_content USING gin (words);

CREATE TABLE forge_line (
    branch BIGINT NOT NULL,
    position BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    number BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    made_at BIGINT,
    content BIGINT,
    note BYTEA,
    PRIMARY KEY (branch, position)
);
CREATE INDEX forge_line_content ON forge_line (content) WHERE content IS NOT NULL;

CREATE TABLE forge_checkpoint (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL,
    agent TEXT NOT NULL,
    step TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    parent BIGINT,
    iteration BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    branch BIGINT NOT NULL,
    length BIGINT NOT NULL,
    configuration BIGINT NOT NULL,
    state BYTEA NOT NULL,
    digest BYTEA NOT NULL
);
CREATE INDEX forge_checkpoint_run ON forge_checkpoint (run);
CREATE INDEX forge_checkpoint_parent ON forge_checkpoint (parent);
CREATE INDEX forge_checkpoint_branch ON forge_checkpoint (branch);
