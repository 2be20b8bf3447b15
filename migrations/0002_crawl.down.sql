DROP TABLE crawl_repo;
DROP INDEX crawl_page_seq;
ALTER TABLE crawl_window DROP COLUMN unreachable;
ALTER TABLE crawl_page DROP COLUMN span_keys;
ALTER TABLE crawl_page DROP COLUMN keys;
ALTER TABLE crawl_page DROP COLUMN seq;
