-- Contents are read while the search goes on, so a repository may get hits after it was read: `hits` is how many
-- distinct paths were known then. What was found beside the hits follows from the artifacts and is not stored twice.
ALTER TABLE crawl_repo ADD COLUMN hits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE crawl_repo DROP COLUMN siblings;
ALTER TABLE crawl_repo DROP COLUMN recovered;
