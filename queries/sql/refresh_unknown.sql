-- Paths that searches of run ?1 brought and that are no present artifacts, of at most ?3 repositories after key ?2 that
-- the run has not settled.
WITH found AS (
    SELECT DISTINCT h.repo_id, h.path
    FROM hit h
    JOIN crawl_window w ON w.id = h.window_id
    WHERE
        w.run_id = ?1
        AND h.repo_id > ?2
        AND NOT EXISTS (
            SELECT 1 FROM artifact a WHERE a.repo_id = h.repo_id AND a.path = h.path AND a.presence = 'present'
        )
        AND NOT EXISTS (SELECT 1 FROM crawl_repo c WHERE c.run_id = ?1 AND c.repo_id = h.repo_id)
),
chosen AS (
    SELECT DISTINCT f.repo_id FROM found f JOIN repo r ON r.id = f.repo_id
    WHERE r.presence <> 'opted_out' ORDER BY f.repo_id LIMIT ?3
)
SELECT r.id, r.node_id, r.owner, r.name, r.checked_run = ?1 AS checked, f.path
FROM chosen c
JOIN repo r ON r.id = c.repo_id
JOIN found f ON f.repo_id = c.repo_id
ORDER BY r.id, f.path
