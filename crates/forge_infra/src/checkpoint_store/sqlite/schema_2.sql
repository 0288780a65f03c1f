-- Which content has which words. They are kept apart by spaces already, so that every store parts them alike; only that a
-- word occurs is kept, not where.
CREATE VIRTUAL TABLE word USING fts5 (
    words,
    content = '',
    contentless_delete = 1,
    detail = none,
    tokenize = 'unicode61 remove_diacritics 0'
);
