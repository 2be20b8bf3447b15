-- Repositories with hits of run ?1 whose content that run has not read, after key ?2, at most ?3 of them.
SELECT r.id, r.owner, r.name
FROM repo r
WHERE
    r.id > ?2
    AND EXISTS (SELECT 1 FROM hit h JOIN crawl_window w ON w.id = h.window_id WHERE h.repo_id = r.id AND w.run_id = ?1)
    AND NOT EXISTS (SELECT 1 FROM crawl_repo c WHERE c.run_id = ?1 AND c.repo_id = r.id)
ORDER BY r.id
LIMIT ?3
