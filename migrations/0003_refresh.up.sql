-- What a refresh knows: when and by which run a repository was last looked at, the head at which every artifact of it was
-- found as stored, and what was missed once. A thing that is missed stays present until a second run misses it alike.
ALTER TABLE repo ADD COLUMN checked_run INTEGER;
ALTER TABLE repo ADD COLUMN checked_at INTEGER;
ALTER TABLE repo ADD COLUMN checked_head BLOB;
ALTER TABLE repo ADD COLUMN missed_run INTEGER;
ALTER TABLE repo ADD COLUMN missed_as TEXT;
ALTER TABLE artifact ADD COLUMN missed_run INTEGER;
CREATE INDEX repo_checked ON repo (coalesce(checked_at, 0), id);
CREATE INDEX artifact_missed ON artifact (missed_run) WHERE missed_run IS NOT NULL;

-- Requests of all invocations of a run: code search, GraphQL, other REST.
ALTER TABLE run ADD COLUMN code_searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN graphql_queries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN rest_requests INTEGER NOT NULL DEFAULT 0;
