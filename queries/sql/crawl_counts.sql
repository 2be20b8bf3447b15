-- Of run ?1: distinct hits, repositories with hits. Read along the index of repositories and paths, so that what is
-- alike comes together and nothing has to be sorted.
SELECT count(*), count(DISTINCT repo_id)
FROM (
    SELECT h.repo_id
    FROM hit h INDEXED BY hit_repo
    CROSS JOIN crawl_window w ON w.id = h.window_id AND w.run_id = ?1
    GROUP BY h.repo_id, h.path
)
