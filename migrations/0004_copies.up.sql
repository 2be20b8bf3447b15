-- Bytes of the body as it is kept, where that is not the body as found: in a copy for others its secrets are replaced, and
-- 0 says that the licence does not let it be passed on. NULL for a body as found.
ALTER TABLE blob ADD COLUMN kept INTEGER;
