-- The end of the holder's lease, in nanoseconds since 1970 by this machine's clock; NULL if it holds the run without one.
ALTER TABLE run ADD COLUMN held_until INTEGER;
