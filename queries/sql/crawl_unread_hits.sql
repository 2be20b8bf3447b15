-- Repositories that run ?1 has read and that got hits since, after key ?2, at most ?3 of them.
SELECT r.id, r.owner, r.name
FROM crawl_repo c
JOIN repo r ON r.id = c.repo_id
WHERE
    c.run_id = ?1
    AND c.repo_id > ?2
    AND c.hits < (
        SELECT count(DISTINCT h.path)
        FROM hit h
        JOIN crawl_window w ON w.id = h.window_id
        WHERE h.repo_id = c.repo_id AND w.run_id = ?1
    )
ORDER BY c.repo_id
LIMIT ?3
