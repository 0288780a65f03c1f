-- The end of the holder's lease by the server's clock; NULL if it holds the run without one.
ALTER TABLE forge_run ADD COLUMN held_until TIMESTAMPTZ;
