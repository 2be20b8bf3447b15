-- What a search page brought is kept as the planner saw it, so that a planner given the pages of a killed run stands
-- where the lost one stood: `seq` is their order, `keys` and `span_keys` the distinct hits after the page.
ALTER TABLE crawl_page ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE crawl_page ADD COLUMN keys INTEGER NOT NULL DEFAULT 0;
ALTER TABLE crawl_page ADD COLUMN span_keys INTEGER NOT NULL DEFAULT 0;
ALTER TABLE crawl_window ADD COLUMN unreachable INTEGER NOT NULL DEFAULT 0;
CREATE INDEX crawl_page_seq ON crawl_page (seq);

-- Repositories whose content a run has read. A row is written in the same transaction as the artifacts.
CREATE TABLE crawl_repo (
    run_id INTEGER NOT NULL REFERENCES run (id),
    repo_id INTEGER NOT NULL REFERENCES repo (id) ON DELETE CASCADE,
    siblings INTEGER NOT NULL DEFAULT 0,
    recovered INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, repo_id)
) STRICT, WITHOUT ROWID;
