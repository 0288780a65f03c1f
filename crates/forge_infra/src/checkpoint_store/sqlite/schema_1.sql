-- One row: the last fencing token that was given. Tokens are never given again, not even after their run was deleted.
CREATE TABLE fence (token INTEGER NOT NULL) STRICT;
INSERT INTO fence (token) VALUES (0);

-- A run, and who may write it.
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    token INTEGER NOT NULL,
    holder TEXT,
    held_since INTEGER NOT NULL
) STRICT;

-- A stretch of a conversation's log. What it has below `forked_at` stands in its parent.
CREATE TABLE branch (
    id INTEGER PRIMARY KEY,
    parent INTEGER,
    forked_at INTEGER NOT NULL,
    length INTEGER NOT NULL
) STRICT;
CREATE INDEX branch_parent ON branch (parent);

-- What messages say, and configurations: JSON, compressed, under the first half of its SHA-256.
CREATE TABLE content (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    body BLOB NOT NULL
) STRICT;

-- The logs: 0 is a message, 1 a compaction, 2 the undoing of one.
CREATE TABLE line (
    branch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    number INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    made_at INTEGER,
    content INTEGER,
    note BLOB,
    PRIMARY KEY (branch, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX line_content ON line (content) WHERE content IS NOT NULL;

-- A checkpoint is the first `length` lines of its branch, and what is not in the log.
CREATE TABLE checkpoint (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    agent TEXT NOT NULL,
    step TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    parent INTEGER,
    iteration INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    length INTEGER NOT NULL,
    configuration INTEGER NOT NULL,
    state BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE INDEX checkpoint_run ON checkpoint (run);
CREATE INDEX checkpoint_parent ON checkpoint (parent);
CREATE INDEX checkpoint_branch ON checkpoint (branch);
